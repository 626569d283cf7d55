"""Tiny random models of any family that transformers knows, to test the instrument on."""

from typing import Any

import torch

from anchorscope.models import families
from anchorscope.models.families import Loaded

LAYERS = 4
SIZES: dict[str, Any] = {
    "vocab_size": 200, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": LAYERS,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 96,
    "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "ffn_dim": 96, "word_embed_proj_dim": 64, "num_experts": 8,
    # wide, so that attention is far from even
    "initializer_range": 0.15, "init_std": 0.15,
    # mixtures of experts
    "num_local_experts": 8, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 1,
    "topk_group": 1, "moe_intermediate_size": 48, "shared_expert_intermediate_size": 48,
    "shared_intermediate_size": 48, "moe_num_experts": 8, "moe_k": 2,
    "n_shared_experts": 1,
    # attention
    "q_lora_rank": 32, "kv_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 16, "query_pre_attn_scalar": 16, "global_head_dim": 16,
    "num_global_key_value_heads": 2, "hidden_size_per_layer_input": 16,
    "vocab_size_per_layer_input": 200, "rotary_dim": 8, "attention_chunk_size": 96,
    # recurrent layers
    "mamba_n_heads": 4, "mamba_d_head": 32, "mamba_d_state": 8, "mamba_n_groups": 1,
    "mamba_num_heads": 4, "mamba_head_dim": 32, "ssm_state_size": 8, "n_groups": 1,
    "mamba_expand": 2, "mamba_chunk_size": 16, "chunk_size": 16, "state_size": 8,
    "time_step_rank": 4, "mamba_dt_rank": 4, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    "lru_width": 64, "attention_window_size": 96, "attn_layer_period": 2, "attn_layer_offset": 1,
    "expert_layer_period": 2, "expert_layer_offset": 1,
}  # fmt: skip
"""Keys of configs; a family is given those that its config has."""


def config(family: str, **sizes: Any) -> Any:
    """Return the config of a tiny model of a family; `sizes` replace some of `SIZES`."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    of_family = CONFIG_MAPPING[family]
    default = of_family()
    keys = {*default.to_dict(), *of_family.attribute_map}
    given = {key: value for key, value in (SIZES | sizes).items() if key in keys}
    if family == "falcon":  # its config computes it
        given.pop("head_dim", None)
    if "kv_lora_rank" in keys:  # latent attention has no groups of heads
        given["num_key_value_heads"] = given["num_attention_heads"]
        given["head_dim"] = given["qk_rope_head_dim"]
    for key in (*families.KINDS, "mlp_layer_types"):  # all kinds of layers are built
        if kinds := list(dict.fromkeys(default.to_dict().get(key) or [])):
            given[key] = [kinds[layer % len(kinds)] for layer in range(LAYERS)]
    return of_family(**given)


def build(family: str, device: torch.device, dtype: str = "float32") -> Loaded:
    """Build a tiny random model of a family. It has no tokenizer, as no text is read."""
    from anchorscope.models import loading

    return loading.build(config(family).to_dict(), dtype, device)
