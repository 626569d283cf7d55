"""Where does a language model's signal of truth come from: the question, or the answer?"""

__version__ = "0.1.0"
