-- wrk -s load.lua URL -- METHOD [BODY]: the same request again and again. The last line of output
-- is "REQUESTS ELAPSED_US ERRORS P99_US", with errors of every kind in one figure.

function init(args)
  wrk.method = args[1]
  if args[2] then
    wrk.body = args[2]
    wrk.headers["Content-Type"] = "application/json"
  end
end

function done(summary, latency)
  local errors = 0
  for _, count in pairs(summary.errors) do errors = errors + count end
  print(string.format("%d %d %d %d", summary.requests, summary.duration, errors,
                      latency:percentile(99)))
end
