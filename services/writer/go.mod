module github.com/calferry/calferry/services/writer

go 1.26.0

require (
	github.com/calferry/calferry/pkg v0.0.0
	github.com/calferry/calferry/proto v0.0.0
)

replace github.com/calferry/calferry/proto => ../../proto

replace github.com/calferry/calferry/pkg => ../../pkg
