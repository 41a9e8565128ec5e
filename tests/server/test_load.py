"""What the server bears: a short run of the soak, and what it costs.

Bounds are those of a quiet machine where what else runs cannot change the figure, and wider where
it can; `make soak` and bench/server.py hold the others.
SPDX-License-Identifier: Apache-2.0
"""
import pytest
from measure import first_bytes, idle_bytes, time_beside_engine
from serving import Server
from soak import soak

HEALTH_P99_S = 0.05  # 0.01 on a quiet machine


def test_many_clients_half_of_whom_leave(packed):
    made = soak(packed, 20, 64)
    print(made.report())
    assert not made.wrong, made.wrong[:5]
    assert made.p99() < HEALTH_P99_S, made.report()


@pytest.fixture(scope="module")
def eight(packed):
    with Server(packed, "--context", 1024, "--parallel", 8) as running:
        yield running


@pytest.mark.parametrize("users", [1, 8])
def test_the_server_takes_little_beside_the_engine(eight, users):
    parts = sorted(time_beside_engine(eight, users, 48, seed) for seed in range(3))
    assert parts[1] < 0.03, parts


def test_a_token_arrives_at_once(eight):
    """A wait by design, be it a timer or the next step, would be in each of them."""
    times = sorted(t for seed in range(4) for t in first_bytes(eight, 8, 4, 100 + seed))
    assert times[len(times) // 8] < 0.002, times


def test_a_thousand_idle_connections(tiny_server):
    assert idle_bytes(tiny_server, 1000) < 30e6
