#!/usr/bin/env python3
"""Writes tests/data/sampling/distributions.jsonl: what Hugging Face transformers makes of fixed logits.

For each case of sampling parameters, the logits pass the processors that GenerationMixin itself puts together for them,
in its own order, in float64; the file holds the softmax of what comes out. Frequency and presence penalty, which
transformers lacks, are a processor of this script after the formula of OpenAI's API reference,
  logit[t] -= count[t] * frequency_penalty + (count[t] > 0) * presence_penalty, over generated tokens.

  python3 -m venv build/golden-venv
  build/golden-venv/bin/pip install torch==2.15.0 transformers==5.24.0
  build/golden-venv/bin/python tests/tools/make_sampling_golden.py

The first line is the header: name to logits, and the versions. Every other line is a case: the logits' name, the
parameters that are not at their defaults, the prompt's, generated and end tokens, and the kept tokens with their
probabilities, those under 1e-30 left out.
"""

import argparse
import itertools
import json
import pathlib
import random

import torch
import transformers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, LogitsProcessor, LogitsProcessorList

VOCAB = 64
END_TOKENS = [3, 50]
# A threshold this close to a cut would make the kept set depend on rounding.
MARGIN = 1e-5
# Less likely tokens are left out: floats do not reach much lower.
LEAST = 1e-30


class OpenAiPenalties(LogitsProcessor):
    """Frequency and presence penalty over the tokens after the prompt."""

    def __init__(self, prompt_len: int, frequency: float, presence: float):
        self.prompt_len = prompt_len
        self.frequency = frequency
        self.presence = presence

    def __call__(self, input_ids: torch.LongTensor, scores: torch.Tensor) -> torch.Tensor:
        counts = torch.bincount(input_ids[0, self.prompt_len:], minlength=VOCAB).to(scores.dtype)
        return scores - counts * self.frequency - (counts > 0) * self.presence


def make_logits() -> dict[str, list[float]]:
    """Logits with 4 decimals, no two of a kind equal."""
    rng = random.Random(20250611)
    peaked = [rng.gauss(0, 1.5) for _ in range(VOCAB)]
    peaked[17], peaked[3], peaked[44] = 9.0, 7.9, 7.2
    kinds = {
        "peaked": peaked,
        "flat": [rng.gauss(0, 0.6) for _ in range(VOCAB)],
        "model": [-0.9 * i**0.75 + rng.gauss(0, 0.3) + 14 for i in range(VOCAB)],
    }
    rng.shuffle(kinds["model"])
    return {name: [round(x, 4) for x in values] for name, values in kinds.items()}


def make_cases() -> list[dict]:
    """Each parameter alone, then combinations, over all logits."""
    alone = [
        {},
        *({"temperature": t} for t in (0.25, 0.7, 1.7)),
        *({"top_k": k} for k in (1, 2, 10, 63, 64, 500)),
        *({"top_p": p} for p in (0.0625, 0.5, 0.9375, 0.9921875)),
        *({"min_p": p} for p in (0.015625, 0.25, 1.0)),
        *({"repetition_penalty": p} for p in (1.25, 0.75, 4.0)),
        *({"frequency_penalty": p} for p in (0.5, -1.5, 2.0)),
        *({"presence_penalty": p} for p in (0.5, -1.5, 2.0)),
        {"logit_bias": [[17, -100.0], [3, 2.5], [60, 100.0]]},
        {"logit_bias": [[44, -7.5], [5, 4.25]]},
        *({"min_tokens": n} for n in (1, 7, 8)),
    ]
    together = [
        {"temperature": t, "top_k": k, "top_p": top_p, "min_p": min_p}
        for t, k, top_p, min_p in itertools.product((0.5, 1.25), (0, 20), (0.75, 0.96875), (0.0, 0.0625))
    ]
    penalties = {"repetition_penalty": 1.25, "frequency_penalty": 0.25, "presence_penalty": 0.75,
                 "logit_bias": [[17, -3.5], [8, 3.0]], "min_tokens": 9}
    everything = [
        penalties,
        {"temperature": 0.75, "top_k": 12} | penalties,
        {"temperature": 0.75, "top_p": 0.875} | penalties,
        {"temperature": 1.5, "min_p": 0.125} | penalties,
        {"temperature": 1.5, "top_k": 30, "top_p": 0.9375, "min_p": 0.03125} | penalties,
    ]
    return [{"logits": name, "params": params} for params in alone + together + everything
            for name in ("peaked", "flat", "model")]


def processors(model: LlamaForCausalLM, params: dict, prompt_len: int) -> LogitsProcessorList:
    config = GenerationConfig(
        do_sample=True, temperature=params.get("temperature", 1.0), top_k=params.get("top_k", 0),
        top_p=params.get("top_p", 1.0), min_p=params.get("min_p"),
        repetition_penalty=params.get("repetition_penalty", 1.0), min_new_tokens=params.get("min_tokens"),
        sequence_bias=[[[token], bias] for token, bias in params.get("logit_bias", [])] or None,
        eos_token_id=END_TOKENS, pad_token_id=0, num_beams=1)
    model._prepare_special_tokens(config, device="cpu")
    own = OpenAiPenalties(prompt_len, params.get("frequency_penalty", 0.0), params.get("presence_penalty", 0.0))
    return model._get_logits_processor(config, input_ids_seq_length=prompt_len,
                                       logits_processor=LogitsProcessorList([own]))


def check_margins(params: dict, before: torch.Tensor) -> None:
    """Refuses a case whose top_p or min_p falls on a token; `before` is sorted, after temperature and top_k."""
    cumulated = before.cumsum(0)
    if "top_p" in params and (cumulated - params["top_p"]).abs().min() < MARGIN:
        raise SystemExit(f"{params}: top_p falls on a token")
    ratio = before / before[0]
    if 0 < params.get("min_p", 0) < 1 and (ratio - params["min_p"]).abs().min() < MARGIN:
        raise SystemExit(f"{params}: min_p falls on a token")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).resolve().parents[1] / "data" / "sampling" / "distributions.jsonl"
    parser.add_argument("--out", type=pathlib.Path, default=default)
    arguments = parser.parse_args()

    model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCAB, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                         num_attention_heads=1, num_key_value_heads=1))
    logits = make_logits()
    prompt = [17, 5, 60, 5, 8, 21]
    generated = [44, 3, 44, 41, 44, 2, 3]
    input_ids = torch.tensor([prompt + generated])
    lines = [{"logits": logits, "transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
              "prompt": prompt, "generated": generated, "end_tokens": END_TOKENS}]
    for case in make_cases():
        scores = torch.tensor([logits[case["logits"]]], dtype=torch.float64)
        for processor in processors(model, case["params"], len(prompt)):
            if type(processor).__name__ in ("TopPLogitsWarper", "MinPLogitsWarper"):
                check_margins(case["params"], scores[0].softmax(0).sort(descending=True).values)
            scores = processor(input_ids, scores)
        probabilities = scores[0].softmax(0).tolist()
        kept = [token for token in range(VOCAB) if probabilities[token] >= LEAST]
        lines.append(case | {"tokens": kept, "probabilities": [float(f"{probabilities[t]:.7g}") for t in kept]})
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    print(f"{arguments.out}: {len(lines) - 1} cases")


if __name__ == "__main__":
    main()
