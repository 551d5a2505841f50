"""A complaint is said once, and again when it is news."""

import logging

import pytest

from tidelock.adapters.process.complaint import AGAIN_SECONDS, Complaint

log = logging.getLogger("complaint")


def test_the_same_words_are_said_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [100.0]
    complaint = Complaint(log, lambda: now[0])
    for _ in range(5):
        complaint.tell("127.0.0.1:5432 refused process 17")
        now[0] += 1
    complaint.tell("127.0.0.1:5432 refused process 18")
    assert caplog.messages == ["127.0.0.1:5432 refused process 17"]
    now[0] = 100.0 + AGAIN_SECONDS
    complaint.tell("127.0.0.1:5432 refused process 19")
    assert caplog.messages[1:] == ["127.0.0.1:5432 refused process 19 (for 60 s)"]


def test_other_words_and_a_failure_after_it_worked_are_news(caplog: pytest.LogCaptureFixture) -> None:
    complaint = Complaint(log, lambda: 1.0)
    complaint.tell("refused")
    complaint.tell("no answer")
    complaint.over()
    complaint.tell("no answer")
    assert caplog.messages == ["refused", "no answer", "no answer"]
