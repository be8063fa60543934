# Prints the ten packages that took longest, from the events of `go test -json`. Called by hack/test.sh.
function value(key, pattern) { return match($0, "\"" key "\":" pattern) ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) : "" }
/"Action":"(pass|fail)"/ && !/"Test":/ { # A package with a failed test may have run twice.
  package = value("Package", "\"[^\"]*\"")
  if (!(package in seconds)) packages++
  seconds[package] += value("Elapsed", "[0-9.]+")
}
END {
  if (packages < 2) exit
  print "\nThe packages that took longest:"
  for (rank = 0; rank < 10 && packages > 0; rank++) {
    longest = ""
    for (each in seconds) if (longest == "" || seconds[each] > seconds[longest]) longest = each
    printf "%8.1f s  %s\n", seconds[longest], substr(longest, 2, length(longest) - 2)
    delete seconds[longest]
    packages--
  }
}
