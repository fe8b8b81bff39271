"""Clusters simulated without sockets: the cost of interest grows with what is wanted, not with consumers."""

from benchmarks.cluster_scale import Simulation, Wire, simulate


async def test_ten_thousand_consumers_of_a_queue_are_one_subscription_of_each_other_broker() -> None:
    async with Simulation(3) as simulation:
        await simulation.link()
        before = Wire.frames
        for _ in range(10_000):
            simulation.here.subscribe("/queue/orders", credit=1)
        await simulation.settle()
        simulation.here.send_small_changes()
        await simulation.settle()
        for other in simulation.others:
            (one,) = other.links["b0"].consumers.interest()
            assert (one.address, one.consumers, one.credit) == ("/queue/orders", 10_000, 10_000)
            assert len(other.engine.broker.destinations.queues["/queue/orders"].consumers) == 1
        assert Wire.frames - before < 100


async def test_a_change_is_a_frame_for_each_other_broker_and_a_restart_two_for_each_destination() -> None:
    row = await simulate(4, 280, memory=False)
    assert (row.begin.frames, row.credit.frames, row.end.frames) == (3, 3, 3)
    handshakes = 3 * 5
    assert row.restart.frames - handshakes <= 2 * (280 + 3 * 50)
