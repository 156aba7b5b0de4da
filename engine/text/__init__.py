"""Text in and out: tokenizer, chat template, sampler, incremental decoding.

Importing this package loads the tokenizer library and numpy only; the template language is loaded when a template is.
"""

from .decoding import IncrementalDecoder
from .generation import GenerationDefaults
from .reasoning import AnswerReader
from .sampler import Sampler, Sampling
from .template import ChatTemplate, Message
from .tokenizer import Tokenizer

__all__ = [
    "AnswerReader",
    "ChatTemplate",
    "GenerationDefaults",
    "IncrementalDecoder",
    "Message",
    "Sampler",
    "Sampling",
    "Tokenizer",
]
