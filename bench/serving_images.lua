-- Asks for drawn JPEG memes on the templates that follow the URL; no text is asked for twice.
--     wrk -s bench/serving_images.lua -c 16 -d 10s http://127.0.0.1:8000 -- Detective-Duck Summit-Goat
local words = {"when", "the", "cat", "sees", "such", "build", "wow", "tests", "pass", "deploy", "friday", "coffee"}
local templates, number = {}, 0

function init(args)
  templates = args
  math.randomseed(os.time())
end

local function line()
  local chosen = {}
  for at = 1, 5 do chosen[at] = words[math.random(#words)] end
  return table.concat(chosen, "_")
end

function request()
  number = number + 1
  local template = templates[math.random(#templates)]
  return wrk.format("GET", string.format("/images/%s/%s/%s_%d.jpg", template, line(), line(), number * 1000 + math.random(999)))
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format('\n{"answers": %d, "seconds": %f, "p50": %f, "p99": %f, "others": %d}\n',
    summary.requests - errors.status, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.status + errors.connect + errors.read + errors.timeout))
end
