// Package verify proves that what is in deploy works: that manifests are valid and fit together, that images build
// and hold nothing but a program, that alerts fire and name metrics that exist, that each service does its whole job
// with its own NATS user and nothing else, and that writers scale with work that can be done.
//
// It is all tests, behind the build tag "deploy" because they compile Kubernetes' types and every program. Run them
// with `make verify-deploy`; they need no network once modules are downloaded, and promtool and redis-server on PATH.
package verify
