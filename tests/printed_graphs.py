"""Nodes of the graphs that torch.compile makes, as Inductor prints them into comments of the code that it writes for a GPU."""

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func


def printed_by(run: Callable[[Any], Any]) -> list[str]:
    """The nodes of forward and backward, one by one. run: is given a backend, compiles with it and calls."""
    graphs: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    torch.compiler.reset()
    run(aot_autograd(fw_compiler=keep))
    return [node.format_node() or "" for graph in graphs for node in graph.graph.nodes]
