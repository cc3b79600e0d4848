"""Uses the Messages API with the official client. Prints what it saw as JSON."""

import json
import os
import sys

import anthropic

asked = json.load(sys.stdin)
client = anthropic.Anthropic(base_url=os.environ["SLUICE_URL"], api_key=os.environ["SLUICE_KEY"], max_retries=0)
model = os.environ["SLUICE_MODEL"]
fields = {"model": model, "max_tokens": 1000, "tools": asked["tools"]}
messages = [{"role": "user", "content": asked["everything"]}]

whole = client.messages.create(messages=messages, **fields)
with client.messages.stream(messages=messages, **fields) as stream:
    text = "".join(stream.text_stream)
    final = stream.get_final_message()

calls = [block for block in final.content if block.type == "tool_use"]
results = [{"type": "tool_result", "tool_use_id": call.id, "content": "ok"} for call in calls]
conversation = messages + [
    {"role": "assistant", "content": final.content},
    {"role": "user", "content": results + [{"type": "text", "text": asked["done"]}]},
]
second = client.messages.create(messages=conversation, **fields)
count = client.messages.count_tokens(model=model, messages=messages, tools=asked["tools"])
try:
    client.messages.create(messages=messages, **{**fields, "model": "acme/none"})
    error = None
except anthropic.APIStatusError as caught:
    error = [type(caught).__name__, caught.body["error"]["type"]]

json.dump(
    {
        "text": text,
        "types": [block.type for block in final.content],
        "same": [block.type for block in whole.content] == [block.type for block in final.content],
        "input": calls[0].input,
        "second": second.content[0].text,
        "counted": count.input_tokens == whole.usage.input_tokens,
        "models": model in [listed.id for listed in client.models.list()],
        "error": error,
    },
    sys.stdout,
)
