"""llama.cpp's own HTTP server, as the xllamacpp wheel ships it: llama_server.py MODEL.gguf PORT [SLOTS [cold]]

With `cold` no prompt is found again in a slot: the same requests sent twice cost the same twice."""
import signal
import sys
import threading

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames = ["127.0.0.1"] if isinstance(params.hostnames, list) else "127.0.0.1"
params.port = int(sys.argv[2])
params.n_parallel = int(sys.argv[3]) if len(sys.argv) > 3 else 4
params.n_ctx = 8192
# One thread: with as many as cores its barriers spin while the client waits for a core.
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.endpoint_metrics = params.endpoint_props = params.endpoint_slots = True
params.use_jinja = True
params.n_gpu_layers = 0
params.cache_prompt = "cold" not in sys.argv
server = xllamacpp.Server(params)
done = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: done.set())
done.wait()
