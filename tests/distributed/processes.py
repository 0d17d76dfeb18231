"""A few processes of torch.distributed that stay up and run one function after another: torch is imported once in each."""

import os
import socket
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATIENCE = 240  # seconds that the slowest function may take


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Processes:
    """`size` processes with a gloo group; `run` uses the first n of them, which have a group of their own."""

    def __init__(self, size: int, timeout: float = 60.0) -> None:
        context = get_context("spawn")
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), OMP_NUM_THREADS="1")
        pairs = [context.Pipe() for _ in range(size)]
        self.ends = [mine for mine, _ in pairs]
        self.processes = [
            context.Process(target=serve, args=(rank, size, theirs, timeout), daemon=True)
            for rank, (_, theirs) in enumerate(pairs)
        ]
        for process, (_, theirs) in zip(self.processes, pairs, strict=True):
            process.start()
            theirs.close()

    def run(self, size: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What `function(group, *arguments)` gives in each of the first n processes; the first error of any of them is raised."""
        found = self.results(size, function, *arguments)
        for rank, (result, error) in enumerate(found):
            if error is not None:
                raise AssertionError(f"rank {rank}: {error}")
            assert result is not Missing
        return [result for result, _ in found]

    def results(self, size: int, function: Callable[..., Any], *arguments: Any) -> list[tuple[Any, str | None]]:
        """(result, error) of each; a process that is gone has none of both."""
        for end in self.ends[:size]:
            end.send((size, function, arguments))
        return [answer(end) for end in self.ends[:size]]

    def stop(self) -> None:
        """End the processes."""
        for end in self.ends:
            end.close()
        for process in self.processes:
            process.kill()
            process.join()


class Missing:
    """The result of a process that is gone."""


def answer(end: Connection) -> tuple[Any, str | None]:
    """What a process says."""
    if not end.poll(PATIENCE):
        return Missing, f"no answer in {PATIENCE} s"
    try:
        return end.recv()
    except EOFError:
        return Missing, None


def serve(rank: int, size: int, end: Connection, timeout: float) -> None:
    """The life of a process."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ["RANK"] = str(rank)
    dist.init_process_group("gloo", rank=rank, world_size=size, timeout=timedelta(seconds=PATIENCE))  # a start may be slow
    groups = {count: dist.new_group(list(range(count)), timeout=timedelta(seconds=timeout)) for count in range(1, size + 1)}
    while True:
        try:
            count, function, arguments = end.recv()
        except EOFError:
            return
        try:
            end.send((function(groups[count], *arguments), None))
        except Exception as error:
            end.send((None, f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))
