# Prints the ten packages that took longest, from the output of `go test`. Called by `make test`.
($1 == "ok" || $1 == "FAIL") && $3 ~ /^[0-9.]+s$/ { seconds[$2] = $3 + 0; packages++ }
END {
  if (packages < 2) exit
  print "\nThe packages that took longest:"
  for (rank = 0; rank < 10 && packages > 0; rank++) {
    longest = ""
    for (each in seconds) if (longest == "" || seconds[each] > seconds[longest]) longest = each
    printf "%8.1f s  %s\n", seconds[longest], longest
    delete seconds[longest]
    packages--
  }
}
