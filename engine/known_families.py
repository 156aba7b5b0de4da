"""Models that people know, by family: what to say when they ask whether theirs is supported."""

from __future__ import annotations

from typing import Final, NamedTuple


class Known(NamedTuple):
    """models: names that people use. example: a repository on the hub; '' for a part of another family's models."""

    models: str
    example: str


KNOWN: Final[dict[str, Known]] = {
    "deepseek_v2": Known("DeepSeek V2, V2-Lite, Coder-V2", "deepseek-ai/DeepSeek-V2-Lite-Chat"),
    "deepseek_v3": Known("DeepSeek V3, V3.1, R1; Moonlight", "deepseek-ai/DeepSeek-R1"),
    "deepseek_v32": Known("DeepSeek V3.2", "deepseek-ai/DeepSeek-V3.2"),
    "dots1": Known("dots.llm1", "rednote-hilab/dots.llm1.inst"),
    "ernie4_5_moe": Known("ERNIE 4.5", "baidu/ERNIE-4.5-21B-A3B-PT"),
    "flex_olmo": Known("FlexOlmo", "allenai/FlexOlmo-7x7B-1T"),
    "gemma4": Known("Gemma 4 26B-A4B", "google/gemma-4-26B-A4B-it"),
    "gemma4_text": Known("Gemma 4, the text model alone", ""),
    "glm4_moe": Known("GLM-4.5, 4.6, 4.7, 4.5-Air", "zai-org/GLM-4.5-Air"),
    "glm4_moe_lite": Known("GLM-4.7-Flash", "zai-org/GLM-4.7-Flash"),
    "glm_moe_dsa": Known("GLM-5, 5.2", "zai-org/GLM-5"),
    "gpt_oss": Known("gpt-oss 20B, 120B", "openai/gpt-oss-20b"),
    "granitemoe": Known("Granite 3 MoE", "ibm-granite/granite-3.1-3b-a800m-instruct"),
    "granitemoeshared": Known("Granite MoE with shared experts", "ibm-research/moe-7b-1b-active-shared-experts"),
    "hunyuan_v1_moe": Known("Hunyuan-A13B", "tencent/Hunyuan-A13B-Instruct"),
    "jetmoe": Known("JetMoE", "jetmoe/jetmoe-8b-chat"),
    "kimi_k2": Known("Kimi K2, K2-Thinking", "moonshotai/Kimi-K2-Instruct"),
    "lfm2_moe": Known("LFM2 8B-A1B", "LiquidAI/LFM2-8B-A1B"),
    "llama4": Known("Llama 4 Scout, Maverick", "meta-llama/Llama-4-Scout-17B-16E-Instruct"),
    "llama4_text": Known("Llama 4, the text model alone", ""),
    "minimax_m2": Known("MiniMax-M2", "MiniMaxAI/MiniMax-M2"),
    "mixtral": Known("Mixtral 8x7B, 8x22B", "mistralai/Mixtral-8x7B-Instruct-v0.1"),
    "olmoe": Known("OLMoE 1B-7B", "allenai/OLMoE-1B-7B-0125-Instruct"),
    "phimoe": Known("Phi-3.5-MoE", "microsoft/Phi-3.5-MoE-instruct"),
    "qwen2_moe": Known("Qwen1.5-MoE, Qwen2-57B-A14B", "Qwen/Qwen1.5-MoE-A2.7B-Chat"),
    "qwen3_5_moe": Known("Qwen3.5 MoE", "Qwen/Qwen3.5-35B-A3B"),
    "qwen3_5_moe_text": Known("Qwen3.5 MoE, the text model alone", ""),
    "qwen3_moe": Known("Qwen3 30B-A3B, 235B-A22B, Coder", "Qwen/Qwen3-30B-A3B"),
    "qwen3_next": Known("Qwen3-Next 80B-A3B", "Qwen/Qwen3-Next-80B-A3B-Instruct"),
}
"""By config.json's `model_type`."""
