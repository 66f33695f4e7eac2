"""The step contract: steps run in order, and the first drop ends them."""

from memeloom.engine.steps import Drop, Keep, apply_steps


def double(number: int) -> Keep[int] | Drop:
    return Keep(2 * number)


def limit(number: int) -> Keep[int] | Drop:
    return Keep(number) if number < 10 else Drop("too large", "ten")


def test_steps_run_in_order_until_the_first_drop() -> None:
    assert apply_steps([double, limit, double], 4) == (16, None)
    assert apply_steps([double, limit, double], 5) == (10, Drop("too large", "ten"))
