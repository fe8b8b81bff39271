"""The runs of the data pipeline, and the statistics that they have computed."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from broker_app.base.states import PIPELINE
from broker_app.core.destination import MAX_ADDRESS

#: LOST is shown for a run that has not reported for too long; it is not stored
STARTING, RUNNING, IDLE, STOPPING, DONE, STOPPED, FAILED, LOST = PIPELINE
#: states of a run that reports; the others are final
LIVE = (STARTING, RUNNING, IDLE, STOPPING)
STATES = (*LIVE, DONE, STOPPED, FAILED)


class PipelineRun(models.Model):
    """The newest run of a job under a name."""

    name = models.CharField(max_length=100, unique=True, help_text='such as "archive:B1"')
    job = models.CharField(max_length=20, help_text="archive, statistics, reconcile, replay or compact")
    run_id = models.CharField(max_length=64, help_text="of this start of the job")
    host = models.CharField(max_length=200, blank=True, help_text="where it runs")
    parameters = models.JSONField(default=dict)
    state = models.CharField(max_length=10, choices=[(state, state) for state in STATES])
    started = models.DateTimeField()
    reported = models.DateTimeField(help_text="when it has reported last")
    stop_requested = models.BooleanField(default=False)
    rows = models.BigIntegerField(default=0, help_text="processed by this run")
    offsets = models.JSONField(default=dict, help_text="by broker: epoch and position that it has read")
    lag = models.BigIntegerField(null=True, help_text="positions that it has not read")
    lag_s = models.FloatField(null=True, help_text="seconds since the first of them")
    error = models.CharField(max_length=2000, blank=True)
    batches = models.JSONField(default=list, help_text="the last hundred, oldest first")
    rows_total = models.BigIntegerField(default=0, help_text="processed by all runs of this name")
    batch_counts = models.JSONField(default=list, help_text="batches of all runs, by duration")
    batch_ms_total = models.BigIntegerField(default=0, help_text="durations of all batches of all runs")
    succeeded = models.DateTimeField(null=True, help_text="when a batch ended, or nothing was left to do")
    starts = models.BigIntegerField(default=0, help_text="how often it was started")
    command = models.CharField(max_length=4000, blank=True, help_text="what starts it on its host")

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class Reconciliation(models.Model):
    """The newest result of a job that compares what one broker forwarded with what another received."""

    run = models.OneToOneField(PipelineRun, on_delete=models.CASCADE)
    reported = models.DateTimeField()
    states = models.JSONField(default=dict, help_text="messages in each state")
    file = models.CharField(max_length=1000, blank=True, help_text="on the host of the run, with all rows")
    rows = models.JSONField(default=list, help_text="the first messages that are not ok")

    def __str__(self) -> str:
        return f"{self.run.name} {self.reported:%Y-%m-%d %H:%M}"


class ComputedTime(models.Model):
    """A time of which all minutes of a broker were computed: one without a row had no messages. Times of one
    broker do not touch each other."""

    broker = models.CharField(max_length=64)
    begin = models.DateTimeField()
    end = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["broker", "begin"])]

    def __str__(self) -> str:
        return f"{self.broker} {self.begin:%Y-%m-%d %H:%M} to {self.end:%Y-%m-%d %H:%M}"


class StatMinute(models.Model):
    """One minute of one destination; times in the queue in µs."""

    broker = models.CharField(max_length=64)
    destination = models.CharField(max_length=MAX_ADDRESS)
    minute = models.DateTimeField()
    enqueued = models.BigIntegerField(default=0)
    dequeued = models.BigIntegerField(default=0)
    delivered = models.BigIntegerField(default=0)
    redelivered = models.BigIntegerField(default=0)
    expired = models.BigIntegerField(default=0)
    dead_lettered = models.BigIntegerField(default=0)
    discarded = models.BigIntegerField(default=0)
    bytes_in = models.BigIntegerField(default=0)
    bytes_out = models.BigIntegerField(default=0)
    queue_time_us_p50 = models.BigIntegerField(null=True)
    queue_time_us_p95 = models.BigIntegerField(null=True)
    queue_time_us_p99 = models.BigIntegerField(null=True)
    queue_time_us_max = models.BigIntegerField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=("broker", "destination", "minute"), name="one_row_a_minute")
        ]
        indexes: ClassVar = [models.Index(fields=["minute"])]

    def __str__(self) -> str:
        return f"{self.broker} {self.destination} {self.minute:%Y-%m-%d %H:%M}"
