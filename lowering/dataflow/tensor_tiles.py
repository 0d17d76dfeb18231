"""What tiles of tensors mean for a forward: which tensors have them, and that heads do not share work tiles there."""

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.analysis.packing import Packing, packing
from attnspec.lowering.dataflow.forward import LOAD_TILE, TensorTiles, stage_beside
from attnspec.lowering.dataflow.graph import Dataflow

from attnspec.language.spec import Spec, Tensor


def tiles_of(dataflow: Dataflow) -> TensorTiles:
    """The tiles that a forward's graph has; alone: nothing else is staged."""
    kinds = {operation.kind for operation in dataflow.operations if operation.kind.startswith(LOAD_TILE)}
    in_turn = any(buffer.in_turn for buffer in dataflow.buffers)
    return TensorTiles(len(kinds), in_turn, alone=all(buffer.name != "staged" for buffer in dataflow.buffers))


def tiled_tensors(spec: Spec, dataflow: Dataflow) -> tuple[Tensor, ...]:
    """Declarations of the tensors of which TMA brings tiles, in the order of the tiles."""
    declared = {tensor.name: tensor for tensor in spec.tensors}
    return tuple(declared[value.read.tensor] for value in stage_beside(spec, tiles_of(dataflow)).tiles)


def packing_of(analysed: Analysed, dataflow: Dataflow) -> Packing:
    """Whether query heads of a group may share work tiles of this kernel, and why not."""
    if dataflow.ctas > 1:
        return Packing(False, "a pair of CTAs has the rows of one head")
    tiled = ", ".join(tensor.name for tensor in tiled_tensors(analysed.spec, dataflow))
    return Packing(False, f"a tile of {tiled} has the rows of one head") if tiled else packing(analysed)
