"""Creates embeddings of the texts in its input with the official client. Prints what it got as JSON."""

import asyncio
import json
import os
import sys

import openai

OPTIONS = {"base_url": f"{os.environ['SLUICE_URL']}/v1", "api_key": os.environ["SLUICE_KEY"], "max_retries": 0}
texts = json.load(sys.stdin)
request = {"model": os.environ["SLUICE_MODEL"], "input": texts}


async def embed_async() -> openai.types.CreateEmbeddingResponse:
    async with openai.AsyncOpenAI(**OPTIONS) as client:
        return await client.embeddings.create(**request)


client = openai.OpenAI(**OPTIONS)
responses = [
    client.embeddings.create(**request),
    client.embeddings.create(**request, encoding_format="float"),
    asyncio.run(embed_async()),
]
try:
    client.embeddings.create(**{**request, "input": ["a", ""]})
except openai.APIStatusError as caught:
    error = [type(caught).__name__, caught.code, caught.param]

vectors = [[item.embedding for item in response.data] for response in responses]
json.dump({"vectors": vectors, "error": error}, sys.stdout)
