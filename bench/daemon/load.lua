-- wrk -s load.lua URL -- METHOD BODY NUMBERS: the same request again and again; unless NUMBERS is
-- 0, with 0 to NUMBERS - 1 in turn for the @ in BODY. The last line of output is
-- "REQUESTS ELAPSED_US ERRORS P99_US", with errors of every kind in one figure.

function init(args)
  wrk.method = args[1]
  wrk.body = args[2]
  wrk.headers["Content-Type"] = "application/json"
  local numbers = tonumber(args[3])
  if numbers == 0 then return end
  local requests = {}
  for i = 0, numbers - 1 do
    requests[i] = wrk.format(nil, nil, nil, (args[2]:gsub("@", i)))
  end
  local last = -1
  function request()
    last = (last + 1) % numbers
    return requests[last]
  end
end

function done(summary, latency)
  local errors = 0
  for _, count in pairs(summary.errors) do errors = errors + count end
  print(string.format("%d %d %d %d", summary.requests, summary.duration, errors,
                      latency:percentile(99)))
end
