-- Let wrk end with one line that a program can read.
function done(summary)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.timeout + errors.status
  io.write(string.format('{"requests": %d, "failed": %d, "seconds": %.3f}\n',
    summary.requests, failed, summary.duration / 1e6))
end
