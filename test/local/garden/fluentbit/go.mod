// A module of its own, because only this program needs an interpreter of Lua.
module github.com/espalier-dev/espalier/test/local/garden/fluentbit

go 1.26.0

require github.com/yuin/gopher-lua v1.1.2
