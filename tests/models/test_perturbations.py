"""The oracle comparison can fail: every realistic mistake moves the logits far beyond the tolerance.

Two ways. Mistakes that a file can express: the oracle reads the right file, pyspec the wrong one, and the
two must differ; and pyspec on the wrong file equals the oracle on the wrong file, so the changed key or
tensor is really used. Mistakes that no file can express (a mask off by one, another activation) are made in
the NumPy reference, which otherwise agrees."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import TinyFiles
from tests.reference import Knobs, forward
from tests.tiny import FAMILIES, build_model, perturbations

from .support import f32_tolerance, oracle_logits, prompt, pyspec_logits, relative_error

CLEARLY = 3.0  # times the tolerance, at least

FILE_CASES = [(family, name) for family in FAMILIES for name in perturbations(family)]


@pytest.mark.parametrize(("family", "name"), FILE_CASES)
def test_mistake_in_the_file_is_seen(tiny: TinyFiles, family: str, name: str) -> None:
    tokens = prompt(family)
    wrong = tiny.path(family, perturb=name)
    ours = pyspec_logits(wrong, tokens)
    assert relative_error(ours, oracle_logits(tiny.path(family), tokens)) > CLEARLY * f32_tolerance(family)
    theirs = oracle_logits(wrong, tokens)
    rows = np.max(np.abs(ours - theirs), axis=1) / (theirs.max() - theirs.min())
    # A mixture of experts may have a near tie in the wrong file.
    assert (np.median(rows) if FAMILIES[family].n_expert else rows.max()) <= f32_tolerance(family)


def _knobs(family: str) -> dict[str, Knobs]:
    h = FAMILIES[family]
    cases = {
        "mask one too wide": Knobs(causal_shift=1),
        "mask one too narrow": Knobs(causal_shift=-1),
        "other rope": Knobs(other_rope=True),
        "other activation": Knobs(other_activation=True),
    }
    if h.rot != h.head_dim:
        cases["pairs over the whole head"] = Knobs(rope_half_head=True)
    if h.qk_norm:
        cases["norm after rope"] = Knobs(norm_after_rope=True)
    if h.n_expert:
        cases["experts not renormalised"] = Knobs(renormalise_experts=False)
    if h.arch == "gemma3":
        cases |= {
            "window + 1": Knobs(window_shift=1),
            "window - 1": Knobs(window_shift=-1),
            "post norm after the sum": Knobs(post_norm_after_add=True),
            "embedding not scaled": Knobs(embedding_unscaled=True),
            "window base everywhere": Knobs(swa_base_everywhere=True),
        }
        if h.rope_factor is not None:
            cases["scaling on windowed layers"] = Knobs(scale_on_swa_too=True)
    return cases


KNOB_CASES = [(family, name) for family in FAMILIES for name in _knobs(family)]


@pytest.mark.parametrize(("family", "name"), KNOB_CASES)
def test_mistake_in_the_arithmetic_is_seen(tiny: TinyFiles, family: str, name: str) -> None:
    tokens = prompt(family)
    expected = oracle_logits(tiny.path(family), tokens)
    wrong = forward(build_model(family), tokens, knobs=_knobs(family)[name]).logits
    assert relative_error(wrong, expected) > CLEARLY * f32_tolerance(family)


def test_every_hyper_parameter_has_a_mistake() -> None:
    """What a family's file holds beyond its sizes is covered by a perturbation; adding a field asks for
    one."""
    always = {
        "eps_x3",
        "rope_base_x2",
        "rope_mode",
        "head_order",
        "head_count",
        "q_scale",
        "gate_up",
        "layers_swapped",
    }
    needs = {
        "rope_base_swa": "rope_base_swa_x2",
        "n_rot": "n_rot_less",
        "rope_factor": "rope_factor_x2",
        "rope_attn_factor": "rope_attn_factor",
        "rope_freqs": "rope_freqs_ignored",
        "rope_long_short": "rope_long_short_swapped",
        "softcap": "softcap_x1.5",
        "qkv_bias": "bias_k_ignored",
        "out_bias": "bias_output_ignored",
        "ffn_bias": "bias_ffn_up_ignored",
        "qk_norm": "norm_ones.attn_q_norm.0",
        "post_norms": "norm_ones.post_ffw_norm.0",
        "n_expert_used": "experts_used_less",
        "fused_qkv": "qkv_order",
    }
    for family, h in FAMILIES.items():
        names = set(perturbations(family))
        assert always <= names
        for field, name in needs.items():
            assert not getattr(h, field) or name in names, f"{family} has {field} and no {name}"
        if h.window and h.arch == "gemma3":
            assert {"window_plus_1", "window_minus_1", "window_pattern_shifted"} <= names
