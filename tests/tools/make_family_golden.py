#!/usr/bin/env python3
"""Writes tests/data/family: tiny random models of every family, with what Hugging Face transformers computes for them.

Each folder is a model as save_pretrained leaves it (config.json in the old or the new spelling of the rotary
parameters, safetensors in fp32, bf16 or fp16, whole or in shards) with an expected.json beside it:

  tokens     the ids of one sequence, longer than the context length that the rotary embedding was "trained" on
  positions  where the logits are wanted: some below that length, some beyond
  logits     [positions, vocabulary], computed in fp32 by AutoModelForCausalLM from the stored files

rope.json holds the frequencies and the attention factor of transformers' rope functions for parameters of real models.

  python3 -m venv build/golden-venv
  build/golden-venv/bin/pip install torch transformers safetensors
  build/golden-venv/bin/python tests/tools/make_family_golden.py

The models are a function of the seed, so a second run writes the same bytes with the same versions.
"""

import argparse
import dataclasses
import json
import pathlib
import shutil
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DEFAULT_OUT = REPOSITORY / "tests" / "data" / "family"
VOCABULARY = 64
POSITIONS = 128
TOKENS = [index * 37 % VOCABULARY for index in range(96)]
WANTED = [0, 7, 30, 33, 64, 95]
ORIGINAL_POSITIONS = 32
SEED = 20250601
SHARD_BYTES = 60_000


@dataclasses.dataclass
class Model:
    """A model: the family, what its configuration says beside the sizes, and how it is stored."""

    family: str
    dtype: str
    config: dict
    spelling: str = "rope_parameters"  # or what older versions wrote: "rope_scaling", and "type" for its kind
    sharded: bool = False


MODELS = {
    "llama-llama3-fp32": Model(
        "llama",
        "float32",
        {
            "tie_word_embeddings": True,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": ORIGINAL_POSITIONS,
            },
        },
        spelling="rope_scaling",
        sharded=True,
    ),
    "llama-yarn-bf16": Model(
        "llama",
        "bfloat16",
        {
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "original_max_position_embeddings": ORIGINAL_POSITIONS,
            },
        },
    ),
    "llama-linear-fp16": Model(
        "llama",
        "float16",
        {
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
        },
        spelling="type",
    ),
    "qwen2-bf16": Model(
        "qwen2",
        "bfloat16",
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}},
    ),
    "qwen3-fp16": Model(
        "qwen3",
        "float16",
        {
            "head_dim": 64,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
        },
    ),
    "mistral-yarn-bf16": Model(
        "mistral",
        "bfloat16",
        {
            "sliding_window": None,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "original_max_position_embeddings": ORIGINAL_POSITIONS,
                "beta_fast": 8.0,
                "beta_slow": 0.5,
                "mscale": 0.8,
                "mscale_all_dim": 0.5,
                "truncate": False,
            },
        },
    ),
}

# Parameters that people meet: Llama 3.1 and 3.2, Qwen2.5's long context, DeepSeek-like scales, gpt-oss-like ramps.
ROPES = [
    {"head_dim": 64, "rope_theta": 100000.0, "rope_type": "default", "positions": 8192},
    {"head_dim": 128, "rope_theta": 10000.0, "rope_type": "linear", "factor": 4.0, "positions": 16384},
    {
        "head_dim": 128,
        "rope_theta": 500000.0,
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "positions": 131072,
    },
    {
        "head_dim": 64,
        "rope_theta": 500000.0,
        "rope_type": "llama3",
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "positions": 131072,
    },
    {
        "head_dim": 128,
        "rope_theta": 1000000.0,
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
        "positions": 131072,
    },
    {
        "head_dim": 64,
        "rope_theta": 10000.0,
        "rope_type": "yarn",
        "factor": 40.0,
        "original_max_position_embeddings": 4096,
        "mscale": 0.707,
        "mscale_all_dim": 1.0,
        "positions": 163840,
    },
    {
        "head_dim": 64,
        "rope_theta": 150000.0,
        "rope_type": "yarn",
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
        "positions": 131072,
    },
    {
        "head_dim": 128,
        "rope_theta": 1000000.0,
        "rope_type": "yarn",
        "factor": 2.0,
        "original_max_position_embeddings": 32768,
        "attention_factor": 1.25,
        "positions": 65536,
    },
]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=DEFAULT_OUT, metavar="FOLDER", help="default: %(default)s")
    return parser.parse_args()


def randomise(torch, model) -> None:
    """Draws weights large enough that every part of a layer moves the logits."""
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            values = torch.randn(parameter.shape, generator=generator)
            if name.endswith("norm.weight"):
                parameter.copy_(1 + 0.25 * values)
            elif "embed_tokens" in name:
                parameter.copy_(values)
            else:
                parameter.copy_(0.25 * values)


def respell(path: pathlib.Path, spelling: str) -> None:
    """Rewrites the rotary parameters of a config.json as transformers 4 wrote them."""
    if spelling == "rope_parameters":
        return
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    if spelling == "type":
        rope["type"] = rope.pop("rope_type")
    config["rope_scaling"] = rope
    path.write_text(json.dumps(config, indent=2) + "\n")


def write_model(torch, transformers, name: str, model: Model, folder: pathlib.Path) -> None:
    config = transformers.AutoConfig.for_model(
        model.family,
        **{
            "vocab_size": VOCABULARY,
            "hidden_size": 48,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 32,
            "max_position_embeddings": POSITIONS,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": False,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "pad_token_id": None,
            **model.config,
        },
    )
    network = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").to(torch.float32)
    randomise(torch, network)
    network = network.to(getattr(torch, model.dtype))
    network.save_pretrained(folder, max_shard_size=SHARD_BYTES if model.sharded else "1GB")
    respell(folder / "config.json", model.spelling)

    stored = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        logits = stored(torch.tensor([TOKENS])).logits[0, WANTED].double()
    print(f"{name}: logits of rms {logits.square().mean().sqrt():.3f}")
    expected = {
        "transformers": transformers.__version__,
        "tokens": TOKENS,
        "positions": WANTED,
        "logits": [[round(value, 6) for value in row] for row in logits.tolist()],
    }
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")
    for file in folder.iterdir():
        file.chmod(0o644)


def rope_table(torch, transformers, parameters: dict) -> dict:
    """The frequencies and the factor of transformers for one set of parameters."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = {key: value for key, value in parameters.items() if key not in ("head_dim", "positions")}
    head_dim = parameters["head_dim"]
    config = transformers.LlamaConfig(
        hidden_size=2 * head_dim,
        num_attention_heads=2,
        head_dim=head_dim,
        max_position_embeddings=parameters["positions"],
        rope_parameters=rope,
    )
    if rope["rope_type"] == "default":
        exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).to(torch.float) / head_dim
        frequencies, factor = 1.0 / (rope["rope_theta"] ** exponents), 1.0
    else:
        frequencies, factor = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, "cpu")
    return {**parameters, "frequencies": frequencies.tolist(), "scale": factor}


def main() -> int:
    arguments = parse_arguments()
    import torch
    import transformers

    torch.set_num_threads(1)
    for name, model in MODELS.items():
        folder = arguments.out / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write_model(torch, transformers, name, model, folder)
    tables = [rope_table(torch, transformers, parameters) for parameters in ROPES]
    lines = ",\n".join(json.dumps(table) for table in tables)
    (arguments.out / "rope.json").write_text(f"[\n{lines}\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
