"""The Java that Spark's tests need."""

from mom_pipeline import java
from mom_pipeline.errors import PipelineError
from tests.support.missing import missing


def require_java() -> java.Java:
    """The Java of this machine; ends the test where there is none."""
    try:
        return java.find()
    except PipelineError as error:
        missing(str(error))
