"""Training over processes, with what else torch has for more than one of them."""

import pytest
import torch

import attnspec
from tests.distributed import models

SLOW = pytest.mark.slow
FORMS = [("ring", "contiguous"), pytest.param("ring", "zigzag", marks=SLOW), pytest.param("all_gather", "auto", marks=SLOW)]


@pytest.mark.parametrize(("strategy", "layout"), FORMS)
def test_a_language_model_over_four_processes_follows_the_losses_of_one(processes, strategy, layout):
    alone = models.losses_alone()
    together = processes.run(4, models.losses_together, strategy, layout)
    assert all(losses == together[0] for losses in together)
    # Gradients are rounded to bf16 in other places: a step moves a loss by a share of 2^-8 of what it moves it by.
    assert together[0] == pytest.approx(alone, rel=2e-3)
    assert alone[-1] < 0.7 * alone[0]


def test_a_model_under_fsdp_follows_the_losses_of_one_process(processes):
    together = processes.run(2, models.losses_wrapped)
    assert together[0] == pytest.approx(models.losses_alone()[:3], rel=1e-3)


def test_dtensors_come_back_placed_as_they_came(processes):
    q, k, v, sinks, decay = leaves = [one.requires_grad_() for one in models.drawn()]
    out, lse = attnspec.build(models.VARIANT)(q, k, v, return_lse=True, sinks=sinks, decay=decay)
    (out.float().square().sum() + lse.sum()).backward()
    wanted = {"out": out, "lse": lse, **{name: leaf.grad for name, leaf in zip(("q", "k", "v", "sinks", "decay"), leaves)}}
    for found in processes.run(3, models.distributed_tensors):
        for name, value in wanted.items():
            assert torch.allclose(found[name].float(), value.detach().float(), rtol=2.0**-7, atol=2.0**-10), name
