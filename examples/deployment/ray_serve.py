"""decant on a Ray cluster: each replica of a Ray Serve deployment starts a server and passes requests on to it.

    serve run ray_serve:app

For fleets that run Ray anyway: it places the replicas, restarts them and spreads the requests. Needs `ray[serve]` and
`httpx`. DECANT names the program, DECANT_MODEL (which `decant serve` reads by itself) the model.
"""

import os
import subprocess

import fastapi
import httpx
from fastapi.responses import StreamingResponse
from ray import serve

api = fastapi.FastAPI()


@serve.deployment(num_replicas=2, max_ongoing_requests=1000, graceful_shutdown_timeout_s=40,
                  ray_actor_options={"num_cpus": float(os.environ.get("DECANT_CPUS", "1"))})
@serve.ingress(api)
class Decant:

    def __init__(self, program: str):
        self.process = subprocess.Popen([program, "serve", "--port", "0"], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()  # comes once the model is loaded
        if not line.startswith("listening on "):
            raise RuntimeError(f"decant did not start: status {self.process.wait()}")
        self.client = httpx.AsyncClient(base_url=line.split()[-1], timeout=None)

    async def check_health(self):
        (await self.client.get("/health")).raise_for_status()

    def __del__(self):
        self.process.terminate()

    @api.api_route("/{path:path}", methods=["GET", "POST"])
    async def pass_on(self, path: str, request: fastapi.Request):
        headers = {name: request.headers[name] for name in ("content-type", "authorization", "x-request-id")
                   if name in request.headers}
        sent = self.client.build_request(request.method, f"/{path}", content=await request.body(), headers=headers)
        answer = await self.client.send(sent, stream=True)

        async def parts():
            try:
                async for part in answer.aiter_raw():
                    yield part
            finally:  # a client that goes away is cancelled in the engine too
                await answer.aclose()

        kept = {name: answer.headers[name] for name in ("content-type", "retry-after") if name in answer.headers}
        return StreamingResponse(parts(), status_code=answer.status_code, headers=kept)


app = Decant.bind(os.environ.get("DECANT", "decant"))
