#!/usr/bin/env python3
"""Makes tests/data/chat: what transformers and jinja2 render. See tests/data/chat/README.md.

conversations.json   the conversations (written by chat_conversations.py)
rendered.json.gz     every conversation through every template of tests/data/chat/templates
programs.json.gz     small random templates and what jinja2 makes of them
fetched.json.gz      hashes of every conversation through the templates that
                     scripts/fetch-chat-templates gets, which are not stored here

Needs Python 3.11 and, from PyPI, transformers and jinja2.
"""

import argparse
import datetime
import gzip
import json
import pathlib

import jinja2
from transformers.utils import chat_template_utils

import chat_conversations
import chat_programs

NOW = datetime.datetime(2024, 7, 26, 8, 5, 9)
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


class FixedTime:
    """Stands in for datetime.datetime, so that strftime_now gives the same every day."""

    @staticmethod
    def now():
        return NOW


def render(source: str, conversation: dict) -> dict:
    """{"text": ...}, {"raised": the template's words} or {"error": jinja2's words}."""
    variables = SPECIAL_TOKENS | conversation.get("variables", {})
    try:
        messages = chat_template_utils._normalize_chat_messages(conversation["messages"])
        texts, _ = chat_template_utils.render_jinja_template(
            conversations=[messages], tools=conversation.get("tools"), chat_template=source,
            add_generation_prompt=conversation["add_generation_prompt"], **variables)
        return {"text": texts[0]}
    except jinja2.exceptions.TemplateError as error:
        if type(error) is jinja2.exceptions.TemplateError:
            return {"raised": str(error)}
        return {"error": f"{type(error).__name__}: {error}"}
    except Exception as error:  # Whatever Python raises in a template.
        return {"error": f"{type(error).__name__}: {error}"}


def fnv1a64(data: bytes) -> str:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{value:016x}"


def condense(result: dict) -> str:
    """A text as its hash; an error as its kind."""
    if "text" in result:
        return fnv1a64(result["text"].encode())
    return f"raised {result['raised']}" if "raised" in result else "error"


def write(path: pathlib.Path, data) -> None:
    text = json.dumps(data, ensure_ascii=False, indent=0) + "\n"
    if path.suffix == ".gz":
        # No time and no name in the header: the same data gives the same file.
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        path.write_text(text, encoding="utf-8")
    print(f"{path}: {path.stat().st_size} bytes")


def render_all(templates: dict, conversations: list, make=lambda result: result) -> dict:
    return {name: {conversation["name"]: make(render(source, conversation))
                   for conversation in conversations}
            for name, source in sorted(templates.items())}


def read_templates(folder: pathlib.Path) -> dict:
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8")
            for path in sorted(folder.rglob("*.jinja"))}


def main() -> None:
    repository = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=repository / "tests/data/chat")
    parser.add_argument("--fetched", type=pathlib.Path,
                        help="the folder that scripts/fetch-chat-templates made")
    parser.add_argument("--programs", type=int, default=1200, help="random templates to make")
    arguments = parser.parse_args()
    chat_template_utils.datetime = FixedTime

    conversations = chat_conversations.conversations()
    write(arguments.data / "conversations.json", conversations)
    write(arguments.data / "rendered.json.gz",
          render_all(read_templates(arguments.data / "templates"), conversations))
    write(arguments.data / "programs.json.gz",
          # As text: its order of keys counts.
          {"variables": json.dumps(chat_programs.VARIABLES),
           "programs": chat_programs.programs(arguments.programs)})
    if arguments.fetched is not None:
        write(arguments.data / "fetched.json.gz",
              render_all(read_templates(arguments.fetched), conversations, condense))


if __name__ == "__main__":
    main()
