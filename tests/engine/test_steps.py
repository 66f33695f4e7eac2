"""The step contract: steps run in order, and the first drop ends them."""

from memeloom.engine.steps import Drop, Keep, apply_steps


def double(number: int) -> Keep[int] | Drop:
    return Keep(2 * number)


def limit(number: int) -> Keep[int] | Drop:
    return Keep(number) if number < 10 else Drop("too large", "ten")


def test_each_step_gets_what_the_one_before_kept() -> None:
    assert apply_steps([double, limit, double], 4) == (16, None)


def test_the_first_drop_ends_the_steps_and_leaves_the_record_as_it_was_then() -> None:
    assert apply_steps([double, limit, double], 5) == (10, Drop("too large", "ten"))
