"""Uses the Responses API with the official client. Prints what it saw as JSON."""

import json
import os
import sys

import openai

asked = json.load(sys.stdin)
client = openai.OpenAI(base_url=f"{os.environ['SLUICE_URL']}/v1", api_key=os.environ["SLUICE_KEY"], max_retries=0)
model = os.environ["SLUICE_MODEL"]
fields = {"model": model, "tools": asked["tools"], "include": ["reasoning.encrypted_content"]}

whole = client.responses.create(input=asked["everything"], **fields)
with client.responses.stream(input=asked["everything"], **fields) as stream:
    events = [event.type for event in stream]
    final = stream.get_final_response()

conversation = [{"role": "user", "content": asked["everything"]}]
conversation += [item.model_dump(exclude={"parsed_arguments"}) for item in final.output]
for item in final.output:
    if item.type in ("function_call", "custom_tool_call"):
        conversation.append({"type": f"{item.type}_output", "call_id": item.call_id, "output": "ok"})
conversation.append({"role": "user", "content": asked["done"]})
second = client.responses.create(input=conversation, **fields)

json.dump(
    {
        "text": final.output_text,
        "types": [item.type for item in final.output],
        "same": final.output_text == whole.output_text,
        "waited": "keepalive" in events,
        "input": final.output[-1].input,
        "second": second.output_text,
    },
    sys.stdout,
)
