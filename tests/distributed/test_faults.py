"""What is wrong on one rank is an error on all of them that names it, and a rank that is gone hangs nobody."""

import os
import signal

import pytest
import torch.distributed as dist
from torch.distributed import FileStore

import attnspec
from attnspec.distributed import context_parallel
from tests.distributed import faults
from tests.distributed.processes import Processes

WORDS = {
    "spec": "variant: causal #",
    "strategy": "strategy: ring on ranks 0 and 2; all_gather on rank 1",
    "heads": "heads: 2 over 2 on ranks 0 and 2; 4 over 4 on rank 1",
    "rows": "q: ranks 0 and 2 have 4, 4 rows, the layout contiguous of 13 positions over 3 ranks gives 5, 3",
    "values": "values of the tensors that the mask's ranges read: ids_q #",
    "dtype": "on rank 1: q: dtype torch.float32, wanted torch.bfloat16",
    "name": "on rank 1: ids: causal declares no such tensor; it declares none",
    "declared": "on rank 1: ids_q: dtype torch.float32, declared i32",
    "batch": "batch: 1 on ranks 0 and 2; 2 on rank 1",
    "gradient": "gradients wanted: none on ranks 0 and 2; q on rank 1",
}


@pytest.mark.parametrize("fault", WORDS)
def test_a_rank_that_differs_is_named_on_all_ranks(processes, fault):
    found = processes.run(3, faults.message_of, fault)
    assert len(set(found)) == 1
    assert WORDS[fault] in found[0]


@pytest.mark.slow
@pytest.mark.parametrize("fault", WORDS)
def test_a_rank_that_differs_is_named_on_all_ranks_of_a_compiled_call(processes, fault):
    found = processes.run(3, faults.message_of, fault, "aot_eager")
    assert len(set(found)) == 1
    assert WORDS[fault] in found[0]


@pytest.mark.slow
def test_shards_of_ids_that_one_rank_alone_would_gather_again_in_its_backward_are_an_error(processes):
    found = processes.run(3, faults.in_a_graph_on_one)
    assert len(set(found)) == 1
    assert found[0].endswith("compiled on ranks 0 and 2; deterministic=False, reduce_learned=True, "
                             "machine=H200, 8 a node, 400 Gb/s a GPU on rank 1")  # fmt: skip


@pytest.fixture
def alone(tmp_path):
    """A group of one."""
    dist.init_process_group("gloo", store=FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


def test_one_process_is_the_plain_call(alone):
    attention = attnspec.build(faults.CAUSAL)
    q, k, v = faults.draw(30)
    assert context_parallel(attention, alone, "auto", "auto")(q, k, v).equal(attention(q, k, v))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"strategy": "tree"}, "strategy: 'tree', wanted one of ring"),
        ({"layout": "zag"}, "layout: 'zag'"),
        ({"sharded": ["ids"]}, "sharded: causal declares no tensor ids"),
    ],
)
def test_a_wrong_option_is_an_error_at_once(alone, arguments, words):
    with pytest.raises(attnspec.ArgumentError, match=words):
        context_parallel(attnspec.build(faults.CAUSAL), alone, **arguments)


def test_what_is_no_group_is_an_error():
    with pytest.raises(attnspec.ArgumentError, match="a DeviceMesh of one dimension or a ProcessGroup"):
        context_parallel(attnspec.build(faults.CAUSAL), 4)


SLOW = pytest.mark.slow
ENDS = [("killed", None), pytest.param("stopped", None, marks=SLOW), pytest.param("killed", "aot_eager", marks=SLOW)]


@pytest.mark.parametrize(("how", "backend"), ENDS)
def test_a_rank_that_is_gone_ends_the_others_within_the_timeout(how, backend):
    timeout = 8.0 if backend is None else 40.0  # processes that compile are apart
    started = Processes(3, timeout=timeout)
    try:
        for end in started.ends:
            end.send((3, faults.die, (how, backend)))
        answers = [end.recv() for rank, end in enumerate(started.ends) if rank != 1 and end.poll(150)]
        assert len(answers) == 2
        for result, error in answers:
            assert error is None
            assert result[0].startswith("LostRankError: rank ")
            assert "a process has ended or hangs" in result[0]
            assert result[1] < 3 * timeout
    finally:
        os.kill(started.processes[1].pid or 0, signal.SIGKILL)
        started.stop()
