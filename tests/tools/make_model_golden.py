#!/usr/bin/env python3
"""Writes the golden files that judge a forward pass: what Hugging Face transformers computes for a GGUF model.

The GGUF's weights are dequantised to fp32 and loaded into LlamaForCausalLM or Qwen2ForCausalLM (eager attention, fp32,
greedy). The same prompts then run with bf16 and with fp16 weights and activations, as yardsticks: another engine's error
is judged against the error of that computation. The schema is described in tests/data/golden/README.md.

  python3 -m venv build/golden-venv
  build/golden-venv/bin/pip install torch transformers gguf tokenizers
  build/golden-venv/bin/python tests/tools/make_model_golden.py --model models/smollm2-135m-instruct-q4_1.gguf \\
      --set smollm2 --out tests/data/golden/smollm2-135m.jsonl
  build/golden-venv/bin/python tests/tools/make_model_golden.py \\
      --model models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf --set qwen2.5-coder \\
      --out tests/data/golden/qwen2.5-coder-1.5b.jsonl

The sets "gate-…" are for `decant gate reference`: few prompts, up to 4,096 tokens long.

SmolLM2 takes a few minutes on two cores and 2 GB of memory; Qwen2.5-Coder-1.5B takes about ten minutes and 12 GB.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import pathlib
import random
import sys
import time

STEPS = 32
LAST_SAMPLES = 64
STEP_SAMPLES = 16
RANDOM_SEED = 20240607
# Rounding to bf16 moves logits by 0.1 to 0.4 (rms); a prompt far above that sits where a rounding changes which token
# draws all attention, and says nothing about another engine's care.
ILL_CONDITIONED_RMS = 1.0

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DEFAULT_TEXTS = REPOSITORY / "tests" / "data" / "golden" / "texts.json"


@dataclasses.dataclass
class PromptSpec:
    """One prompt: `tokens` ids cut from `text` (a name in texts.json; "random" draws ids) as plain text or as a chat."""

    tokens: int
    form: str
    text: str


GATE_PROMPTS = [
    PromptSpec(16, "plain", "english"),
    PromptSpec(64, "chat", "science"),
    PromptSpec(100, "plain", "code"),
    PromptSpec(256, "plain", "science"),
    PromptSpec(257, "chat", "code"),
    PromptSpec(1024, "plain", "licence"),
    PromptSpec(2048, "chat", "languages+code+english+science"),
    PromptSpec(4096, "plain", "code+licence+science+english+languages"),
]

# The reference in lower precisions: how far rounding alone moves its logits.
YARDSTICKS = {"bf16": "bfloat16", "fp16": "float16"}

PROMPT_SETS = {
    "gate-smollm2": GATE_PROMPTS,
    "gate-qwen2.5-coder": GATE_PROMPTS,
    "smollm2": [
        PromptSpec(1, "plain", "english"),
        PromptSpec(1, "random", "random"),
        PromptSpec(2, "plain", "science"),
        PromptSpec(3, "plain", "code"),
        PromptSpec(7, "plain", "languages"),
        PromptSpec(15, "chat", "english"),
        PromptSpec(16, "plain", "english"),
        PromptSpec(17, "plain", "code"),
        PromptSpec(31, "chat", "question"),
        PromptSpec(63, "plain", "science"),
        PromptSpec(64, "plain", "languages"),
        PromptSpec(65, "chat", "science"),
        PromptSpec(100, "random", "random"),
        PromptSpec(127, "plain", "english"),
        PromptSpec(128, "chat", "languages"),
        PromptSpec(129, "plain", "code"),
        PromptSpec(200, "plain", "licence"),
        PromptSpec(255, "chat", "code"),
        PromptSpec(256, "plain", "science"),
        PromptSpec(257, "plain", "languages"),
        PromptSpec(400, "chat", "english+science"),
        PromptSpec(511, "plain", "licence"),
        PromptSpec(512, "plain", "code"),
        PromptSpec(513, "chat", "science+english"),
        PromptSpec(777, "plain", "languages"),
        PromptSpec(1023, "plain", "licence"),
        PromptSpec(1024, "chat", "english+code+science"),
        PromptSpec(1500, "random", "random"),
        PromptSpec(2047, "plain", "licence"),
        PromptSpec(2500, "chat", "languages+code+english+science"),
        PromptSpec(3000, "plain", "code+licence+science"),
    ],
    "qwen2.5-coder": [
        PromptSpec(1, "plain", "code"),
        PromptSpec(17, "plain", "code"),
        PromptSpec(40, "chat", "question"),
        PromptSpec(130, "random", "random"),
        PromptSpec(257, "chat", "languages"),
        PromptSpec(1000, "plain", "code+english+science"),
    ],
}


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


class GgufModel:
    """A GGUF file's metadata, tokenizer and dequantised tensors."""

    def __init__(self, path):
        import gguf

        self._gguf = gguf
        self._reader = gguf.GGUFReader(path)
        self.architecture = self.field("general.architecture")

    def field(self, name, default=None):
        found = self._reader.fields.get(name)
        if found is None:
            if default is None:
                raise SystemExit(f"the GGUF has no field {name}")
            return default
        return found.contents()

    def arch_field(self, name, default=None):
        return self.field(f"{self.architecture}.{name}", default)

    def tensors(self):
        """Yields (name, fp32 array shaped [out, in])."""
        for tensor in self._reader.tensors:
            data = self._gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            yield tensor.name, data.reshape(tuple(int(n) for n in reversed(tensor.shape)))

    def tokenizer(self):
        from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

        tokens = self.field("tokenizer.ggml.tokens")
        types = self.field("tokenizer.ggml.token_type")
        merges = [tuple(merge.split(" ")) for merge in self.field("tokenizer.ggml.merges")]
        tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        if self.field("tokenizer.ggml.pre") == "qwen2":
            pattern = (
                r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                r"|\s*[\r\n]+|\s+(?!\S)|\s+"
            )
            first = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
            byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        else:
            first = pre_tokenizers.Digits(individual_digits=True)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([first, byte_level])
        tokenizer.decoder = decoders.ByteLevel()
        control, user_defined = 3, 4
        special = [AddedToken(t, special=True) for t, kind in zip(tokens, types) if kind in (control, user_defined)]
        tokenizer.add_special_tokens(special)
        return tokenizer


def hf_name(name):
    """The transformers name of a GGUF tensor of the llama or qwen2 architecture."""
    stem, _, kind = name.rpartition(".")
    outer = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    if stem in outer:
        return f"{outer[stem]}.{kind}"
    inner = {
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    blk, layer, part = stem.split(".")
    if blk != "blk" or part not in inner:
        raise SystemExit(f"no transformers name is known for the tensor {name}")
    return f"model.layers.{layer}.{inner[part]}.{kind}"


def undo_rope_permutation(weight, heads):
    """A llama GGUF stores the rows of Q and K for RoPE on pairs (2i, 2i+1); transformers pairs (i, i + head_dim / 2)."""
    rows, columns = weight.shape
    half = rows // heads // 2
    return weight.reshape(heads, half, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def load_model(source):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    torch.set_grad_enabled(False)
    classes = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM)}
    if source.architecture not in classes:
        raise SystemExit(f"the architecture {source.architecture} is not one of {sorted(classes)}")
    config_class, model_class = classes[source.architecture]
    heads = source.arch_field("attention.head_count")
    kv_heads = source.arch_field("attention.head_count_kv")

    state = {}
    for name, array in source.tensors():
        if source.architecture == "llama" and name.endswith("attn_q.weight"):
            array = undo_rope_permutation(array, heads)
        if source.architecture == "llama" and name.endswith("attn_k.weight"):
            array = undo_rope_permutation(array, kv_heads)
        state[hf_name(name)] = torch.from_numpy(array.copy()).float()

    tied = "lm_head.weight" not in state
    rope_theta = float(source.arch_field("rope.freq_base"))
    config = config_class(
        vocab_size=state["model.embed_tokens.weight"].shape[0],
        hidden_size=source.arch_field("embedding_length"),
        intermediate_size=source.arch_field("feed_forward_length"),
        num_hidden_layers=source.arch_field("block_count"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=source.arch_field("context_length"),
        rms_norm_eps=float(source.arch_field("attention.layer_norm_rms_epsilon")),
        rope_theta=rope_theta,
        tie_word_embeddings=tied,
    )
    parameters = getattr(config, "rope_parameters", None)
    if (parameters or {}).get("rope_theta", config.to_dict().get("rope_theta")) != rope_theta:
        raise SystemExit("transformers did not take the model's rope_theta")
    config._attn_implementation = "eager"
    if tied:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    with torch.device("meta"):
        model = model_class(config)
    missing, unexpected = model.load_state_dict(state, strict=False, assign=True)
    if missing or unexpected:
        raise SystemExit(f"tensors missing {missing}, unexpected {unexpected}")
    # Building on the meta device leaves the RoPE frequencies without storage; a fresh module computes them.
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    if tied:
        model.tie_weights()
    return model.eval()


def cut_to(ids, tokens, what):
    if len(ids) < tokens:
        raise SystemExit(f"{what}: the text has {len(ids)} tokens, {tokens} are wanted")
    return ids[:tokens]


def build_prompts(specs, tokenizer, texts):
    """Returns [(name, form, ids)]; every prompt has exactly its spec's number of ids."""
    rng = random.Random(RANDOM_SEED)
    vocab = tokenizer.get_vocab_size()
    prompts = []
    for spec in specs:
        name = f"{spec.form}-{spec.text}-{spec.tokens}" if spec.form != "random" else f"random-{spec.tokens}"
        if spec.form == "random":
            ids = [rng.randrange(vocab) for _ in range(spec.tokens)]
        else:
            text = "\n".join(texts[part] for part in spec.text.split("+"))
            body = tokenizer.encode(text, add_special_tokens=False).ids
            if spec.form == "plain":
                ids = cut_to(body, spec.tokens, name)
            else:
                head = tokenizer.encode("<|im_start|>user\n", add_special_tokens=False).ids
                tail = tokenizer.encode("<|im_end|>\n<|im_start|>assistant\n", add_special_tokens=False).ids
                room = spec.tokens - len(head) - len(tail)
                # The last ids keep a question's end, so that a short chat still asks something.
                body = body[-room:] if spec.text == "question" else cut_to(body, room, name)
                ids = head + body + tail
                if spec.text == "question" and len(ids) < spec.tokens:
                    name = f"chat-question-{len(ids)}"
        prompts.append((name, spec.form, ids))
    return prompts


def greedy_tokens(model, ids, steps):
    import torch

    tokens, cache = [], None
    feed = torch.tensor([ids], device=model.device)
    for _ in range(steps):
        out = model(input_ids=feed, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = out.past_key_values
        tokens.append(int(out.logits[0, -1].argmax()))
        feed = torch.tensor([[tokens[-1]]], device=model.device)
    return tokens


def forced_logits(model, ids, continuation):
    """Logits [len(continuation), vocab] in fp32: row i follows ids + continuation[:i]."""
    import torch

    feed = torch.tensor([ids + continuation[:-1]], device=model.device)
    return model(input_ids=feed, use_cache=False, logits_to_keep=len(continuation)).logits[0].float().cpu()


def rounded(values, digits=5):
    return [round(float(v), digits) for v in values]


def strided(vocab, samples):
    stride = vocab // samples
    return stride, list(range(0, stride * samples, stride))


def describe(name, form, ids, greedy, logits):
    """The golden line of one prompt, without its yardstick."""
    import torch

    vocab = logits.shape[1]
    last_stride, last_ids = strided(vocab, LAST_SAMPLES)
    step_stride, step_ids = strided(vocab, STEP_SAMPLES)
    top8 = logits[0].topk(8)
    top2 = logits.topk(2, dim=1)
    log_sum_exp = torch.logsumexp(logits, dim=1)
    return {
        "name": name,
        "form": form,
        "prompt": ids,
        "greedy": greedy,
        "last": {
            "stride": last_stride,
            "logits": rounded(logits[0, last_ids]),
            "top8_id": top8.indices.tolist(),
            "top8_logit": rounded(top8.values),
            "log_sum_exp": round(float(log_sum_exp[0]), 5),
        },
        "steps": {
            "stride": step_stride,
            "top2_id": top2.indices.tolist(),
            "top2_logit": [rounded(row) for row in top2.values],
            "log_sum_exp": rounded(log_sum_exp),
            "logits": [rounded(row) for row in logits[:, step_ids]],
        },
    }


def error_of(got, want):
    """Maximum and root of the mean square of got - want, and how many values there were."""
    error = (got - want).double()
    return {
        "max": round(float(error.abs().max()), 5),
        "rms": round(float(error.square().mean().sqrt()), 6),
        "count": error.numel(),
    }


def yardstick(reference, other, greedy):
    """The error of `other` on exactly the entries that `describe` stores, and the flips it makes when forced."""
    import torch

    vocab = reference.shape[1]
    last = torch.tensor(strided(vocab, LAST_SAMPLES)[1] + reference[0].topk(8).indices.tolist())
    step_ids = torch.tensor(strided(vocab, STEP_SAMPLES)[1])
    columns = torch.cat([step_ids.expand(len(greedy), -1), reference.topk(2, dim=1).indices], dim=1)
    log_sum_exp = [torch.logsumexp(x, dim=1) for x in (other, reference)]
    best = other.argmax(dim=1).tolist()
    top2 = reference.topk(2, dim=1).values
    flips = [i for i, (a, b) in enumerate(zip(best, greedy)) if a != b]
    return {
        "last": error_of(other[0, last], reference[0, last]),
        "steps": error_of(other.gather(1, columns), reference.gather(1, columns)),
        "all": error_of(other, reference),
        "log_sum_exp": error_of(*log_sum_exp),
        "flips": [{"step": i, "token": best[i], "gap": round(float(top2[i, 0] - top2[i, 1]), 5)} for i in flips],
    }


def pooled(lines, name, key):
    """One error over all prompts save those where bf16 leaves the road: one such would hide all others."""
    errors = [line[name][key] for line in lines if name in line and not line["ill_conditioned"]]
    if not errors:
        return None
    total = sum(e["count"] for e in errors)
    mean = sum(e["rms"] ** 2 * e["count"] for e in errors) / total
    return {"max": max(e["max"] for e in errors), "rms": round(mean**0.5, 6), "count": total}


def make(args):
    import torch
    import transformers

    torch.set_num_threads(args.threads)
    source = GgufModel(args.model)
    texts = json.loads(pathlib.Path(args.texts).read_text(encoding="utf-8"))
    tokenizer = source.tokenizer()
    prompts = build_prompts(PROMPT_SETS[args.set], tokenizer, texts)
    model = load_model(source).to(args.device)

    lines, references = [], []
    for name, form, ids in prompts:
        start = time.monotonic()
        greedy = greedy_tokens(model, ids, STEPS)
        logits = forced_logits(model, ids, greedy)
        differing = sum(a != b for a, b in zip(logits.argmax(dim=1).tolist(), greedy))
        if differing:
            raise SystemExit(f"{name}: one pass and step by step disagree at {differing} positions")
        lines.append(describe(name, form, ids, greedy, logits))
        references.append(logits)
        print(f"fp32 {name}: {time.monotonic() - start:.1f} s  {tokenizer.decode(greedy)!r}", file=sys.stderr, flush=True)

    for key, dtype in YARDSTICKS.items():
        model = None  # before the next is loaded: memory holds one
        model = load_model(source).to(args.device, getattr(torch, dtype))
        # transformers computes RoPE's angles in fp32 whatever the weights are; the module's move must not change them.
        model.model.rotary_emb = type(model.model.rotary_emb)(model.config).to(args.device)
        for line, reference in zip(lines, references):
            start = time.monotonic()
            logits = forced_logits(model, line["prompt"], line["greedy"])
            if not torch.isfinite(logits).all():  # fp16 overflows in some models: no yardstick there
                print(f"{key} {line['name']}: not finite", file=sys.stderr, flush=True)
                continue
            line[key] = yardstick(reference, logits, line["greedy"])
            print(f"{key} {line['name']}: {time.monotonic() - start:.1f} s  {line[key]['all']}", file=sys.stderr, flush=True)
    for line in lines:
        line["ill_conditioned"] = line["bf16"]["all"]["rms"] > ILL_CONDITIONED_RMS

    header = {
        "golden": 1,
        "model": os.path.basename(args.model),
        "name": source.field("general.name"),
        "architecture": source.architecture,
        "sha256": sha256_of(args.model),
        "vocab": references[0].shape[1],
        "steps": STEPS,
        "script": "tests/tools/make_model_golden.py",
        "set": args.set,
        "random_seed": RANDOM_SEED,
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "reference": f"fp32 weights and activations, eager attention, {args.device}",
    }
    for name in YARDSTICKS:
        header[name] = {key: pooled(lines, name, key) for key in ("last", "steps", "all", "log_sum_exp")}
        header[f"{name}_flips"] = sum(len(line[name]["flips"]) for line in lines if name in line)
    with open(args.out, "w", encoding="utf-8") as out:
        for line in [header] + lines:
            out.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"wrote {args.out}: {len(lines)} prompts, {os.path.getsize(args.out)} bytes", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="the GGUF file (architecture llama or qwen2)")
    parser.add_argument("--set", required=True, choices=sorted(PROMPT_SETS), help="which list of prompts to run")
    parser.add_argument("--out", required=True, help="the .jsonl file to write")
    parser.add_argument("--texts", default=DEFAULT_TEXTS, help="the texts that prompts are cut from (default: %(default)s)")
    parser.add_argument("--device", default="cpu", help="where torch computes: cpu or cuda (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads for torch (default: %(default)s)")
    make(parser.parse_args())


if __name__ == "__main__":
    main()
