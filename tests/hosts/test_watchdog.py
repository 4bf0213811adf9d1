"""The watchdog of a connection."""

import threading
import time

from hosts.watchdog import Watchdog


def test_silence_gives_up_once() -> None:
    gave_up = threading.Semaphore(0)
    started = time.monotonic()
    Watchdog(lambda: False, gave_up.release, 0.1, 3)
    assert gave_up.acquire(timeout=5)
    assert time.monotonic() - started > 0.25
    assert not gave_up.acquire(timeout=0.5)


def test_question_that_blocks_does_not_hold_the_judge() -> None:
    never, over = threading.Event(), threading.Event()
    Watchdog(lambda: never.wait(20), over.set, 0.05, 2)
    assert over.wait(5)
    never.set()


def test_answers_keep_it_quiet() -> None:
    over, answers = threading.Event(), threading.Semaphore(0)

    def answer() -> bool:
        answers.release()
        return True

    dog = Watchdog(answer, over.set, 0.05, 3)
    assert all(answers.acquire(timeout=5) for _ in range(12))
    dog.stop()
    assert not over.is_set()


def test_after_stop_it_gives_up_no_more() -> None:
    over = threading.Event()
    dog = Watchdog(lambda: False, over.set, 0.05, 2)
    dog.stop()
    dog.stop()
    assert not over.wait(0.4)


def test_an_answer_that_comes_just_in_time_saves_the_connection() -> None:  # case G05
    over, asked = threading.Event(), threading.Semaphore(0)
    answers = iter([False, False, True] * 10)

    def answer() -> bool:
        asked.release()
        return next(answers)

    dog = Watchdog(answer, over.set, 0.05, 6)
    assert all(asked.acquire(timeout=5) for _ in range(15))
    dog.stop()
    assert not over.is_set()


def test_a_connection_that_dies_after_it_lived_is_given_up() -> None:  # case G05
    over, answers = threading.Event(), iter([True] * 5)
    Watchdog(lambda: next(answers, False), over.set, 0.05, 3)
    assert over.wait(5)


def test_it_is_patient_for_as_many_questions_as_it_was_told() -> None:
    over, started = threading.Event(), time.monotonic()
    Watchdog(lambda: False, over.set, 0.1, 5)
    assert over.wait(5)
    assert time.monotonic() - started >= 0.5


def test_its_threads_end_with_it() -> None:
    before = set(threading.enumerate())
    dog = Watchdog(lambda: True, lambda: None, 0.02, 3)
    mine = set(threading.enumerate()) - before
    assert len(mine) == 2
    dog.stop()
    for thread in mine:
        thread.join(5)
    assert not any(thread.is_alive() for thread in mine)
