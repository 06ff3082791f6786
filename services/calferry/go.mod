module github.com/calferry/calferry/services/calferry

go 1.26.0

require (
	github.com/calferry/calferry/pkg v0.0.0
	github.com/calferry/calferry/proto v0.0.0
	github.com/calferry/calferry/services/fetcher v0.0.0
	github.com/calferry/calferry/services/state v0.0.0
	github.com/calferry/calferry/services/writer v0.0.0
)

replace github.com/calferry/calferry/proto => ../../proto

replace github.com/calferry/calferry/pkg => ../../pkg

replace github.com/calferry/calferry/services/fetcher => ../fetcher

replace github.com/calferry/calferry/services/writer => ../writer

replace github.com/calferry/calferry/services/state => ../state
