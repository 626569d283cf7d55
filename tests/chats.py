"""Chat templates of the families, written from their public form, and tokenizers that have them."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken

_ALTERNATE = (
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}"
    "{% endif %}"
)


@dataclass(frozen=True)
class Chat:
    """A family's template."""

    template: str
    end: str  # what it writes after an assistant's turn
    special: tuple[str, ...] = ()  # added tokens
    eos: str = "</s>"  # the tokenizer's end-of-sequence token
    strips: bool = False  # whether white space at a message's end goes


_HEADS = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
_CHATML = ("<|im_start|>", "<|im_end|>")
_PIPES = ("<|system|>", "<|user|>", "<|assistant|>")

CHATS = {
    "llama-2": Chat(
        _ALTERNATE + "{% if m['role'] == 'user' %}{{ bos_token + '[INST] ' + m['content'].strip() "
        "+ ' [/INST]' }}{% else %}{{ ' ' + m['content'].strip() + ' ' + eos_token }}{% endif %}"
        "{% endfor %}",
        "</s>",
        strips=True,
    ),
    "llama-3": Chat(
        "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m['role'] + "
        "'<|end_header_id|>\n\n' + m['content'] | trim + '<|eot_id|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
        "{% endif %}",
        "<|eot_id|>",
        _HEADS,
        "<|end_of_text|>",
        strips=True,
    ),
    "qwen2": Chat(
        "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}{{ '<|im_start|>system"
        "\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}{{ '<|im_start|>' + m['role'] + "
        "'\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|im_start|>assistant\n' }}{% endif %}",
        "<|im_end|>",
        _CHATML,
        "<|endoftext|>",
    ),
    "qwen3": Chat(
        "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m['role'] == 'user' %}"
        "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}"
        "{% if m['role'] == 'assistant' and loop.index0 > ns.last %}"
        "{{ '<|im_start|>assistant\n<think>\n\n</think>\n\n' + m['content'] + '<|im_end|>\n' }}"
        "{% else %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
        "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
        "{% if enable_thinking is defined and enable_thinking is false %}"
        "{{ '<think>\n\n</think>\n\n' }}{% endif %}{% endif %}",
        "<|im_end|>",
        _CHATML,
        "<|endoftext|>",
    ),
    "mistral": Chat(
        "{{ bos_token }}"
        + _ALTERNATE
        + "{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + "
        "'[/INST]' }}{% else %}{{ ' ' + m['content'] | trim + eos_token }}{% endif %}{% endfor %}",
        "</s>",
        ("[INST]", "[/INST]"),
    ),
    "gemma3": Chat(
        "{{ bos_token }}"
        + _ALTERNATE
        + "{{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\n' + "
        "m['content'] | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<start_of_turn>model\n' }}{% endif %}",
        "<end_of_turn>",
        ("<start_of_turn>", "<end_of_turn>"),
        "<eos>",
        strips=True,
    ),
    "olmo2": Chat(
        "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'assistant' %}"
        "{{ '<|assistant|>\n' + m['content'] + eos_token }}{% if not loop.last %}{{ '\n' }}"
        "{% endif %}{% else %}{{ '<|' + m['role'] + '|>\n' + m['content'] + '\n' }}{% endif %}"
        "{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
        "{% endfor %}",
        "<|endoftext|>",
        _PIPES,
        "<|endoftext|>",
    ),
    "phi3": Chat(
        "{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + m['content'] + '<|end|>\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}"
        "{{ eos_token }}{% endif %}",
        "<|end|>",
        (*_PIPES, "<|end|>"),
        "<|endoftext|>",
    ),
    "falcon": Chat(
        "{% for m in messages %}{% if not loop.first %}{{ '\n' }}{% endif %}"
        "{{ ('User: ' if m['role'] == 'user' else 'Falcon: ') + m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '\nFalcon:' }}{% endif %}",
        "\nUser:",
        (),
        "<|endoftext|>",
    ),
    "smollm2": Chat(
        "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + "
        "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|im_start|>assistant\n' }}{% endif %}",
        "<|im_end|>",
        _CHATML,
        "<|im_end|>",
    ),
}
"""Mixtral has Mistral's, Qwen3 MoE that of Qwen3; GPT-2 and GPT-NeoX have none."""


def with_chat(tokenizer: Any, chat: Chat) -> Any:
    """A copy of a tokenizer with a family's template and its added tokens."""
    copy = deepcopy(tokenizer)
    copy.add_tokens([AddedToken(text, special=True) for text in (chat.eos, *chat.special)])
    copy.eos_token = chat.eos
    copy.bos_token = copy.bos_token or ""
    copy.chat_template = chat.template
    return copy


def simple_chat(tokenizer: Any) -> Any:
    """A copy of a tokenizer whose template ends turns with its end-of-sequence token."""
    copy = deepcopy(tokenizer)
    copy.chat_template = (
        "{% for m in messages %}{{ m['role'] + ': ' + m['content'] }}"
        "{% if m['role'] == 'assistant' %}{{ eos_token }}{% else %}{{ '\n' }}{% endif %}"
        "{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
    )
    return copy
