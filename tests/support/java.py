"""The Java that Spark's tests need."""

from mom_pipeline.errors import PipelineError
from mom_pipeline.spark import java
from tests.support.missing import missing

#: options of a Java that starts sooner, and is fast enough for a few rows: it compiles with less effort, and
#: does not check the classes of Spark, which takes a fifth of the processor time of a start. With less effort
#: it has 48 MiB for compiled code, which the tests of one session fill: then it drops and compiles again.
QUICK = (
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)


def require_java() -> java.Java:
    """The Java of this machine; ends the test where there is none."""
    try:
        return java.find()
    except PipelineError as error:
        missing(str(error))
