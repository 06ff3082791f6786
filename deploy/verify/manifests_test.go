//go:build deploy

package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	sigsyaml "sigs.k8s.io/yaml"
)

const (
	base = "../k8s/base"
	prod = "../k8s/overlays/prod"
)

// render does what `kubectl kustomize` does.
func render(dir string) ([]byte, error) {
	set, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	return set.AsYaml()
}

// withHPA is prod with the HPA in place of KEDA.
func withHPA(t *testing.T) []byte {
	t.Helper()
	all := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(all, "deploy", "k8s"), os.DirFS("../k8s")))
	require.NoError(t, os.CopyFS(filepath.Join(all, "deploy", "monitoring"), os.DirFS("../monitoring")))
	file := filepath.Join(all, "deploy", "k8s", "overlays", "prod", "kustomization.yaml")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, bytes.Replace(text, []byte("components/keda"), []byte("components/hpa"), 1), 0o600))
	out, err := render(filepath.Dir(file))
	require.NoError(t, err)
	return out
}

// scaledObject is what the checks need of a KEDA ScaledObject; its schema is checked before.
type scaledObject struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		ScaleTargetRef  struct{ Name, Kind string }
		MinReplicaCount int
		MaxReplicaCount int
		Advanced        struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior autoscaling.HorizontalPodAutoscalerBehavior
			}
		}
		Triggers []struct {
			Type       string
			MetricType string
			Metadata   map[string]string
		}
	}
}

func (s *scaledObject) DeepCopyObject() runtime.Object { c := *s; return &c }

// kinds knows every kind that may be deployed.
var kinds = func() serializer.CodecFactory {
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), monitoring.AddToScheme(s)); err != nil {
		panic(err)
	}
	return serializer.NewCodecFactory(s, serializer.EnableStrict)
}()

// decode reads manifests as strictly as the API server does: an unknown or repeated field is an error.
func decode(manifests []byte) ([]runtime.Object, error) {
	var objects []runtime.Object
	var errs []error
	docs := yaml.NewYAMLReader(newReader(manifests))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return objects, errors.Join(errs...)
		}
		var o runtime.Object
		if err == nil {
			if bytes.Contains(doc, []byte("kind: ScaledObject\n")) {
				o, err = decodeScaledObject(doc)
			} else {
				o, _, err = kinds.UniversalDeserializer().Decode(doc, nil, nil)
			}
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		objects = append(objects, o)
	}
}

func decodeScaledObject(doc []byte) (runtime.Object, error) {
	var content map[string]any
	if err := sigsyaml.UnmarshalStrict(doc, &content); err != nil {
		return nil, err
	}
	schema, err := kedaSchema()
	if err != nil {
		return nil, err
	}
	if err := schema.Validate(content); err != nil {
		return nil, fmt.Errorf("ScaledObject: %w", err)
	}
	o := &scaledObject{}
	return o, sigsyaml.Unmarshal(doc, o)
}

// kedaSchema is KEDA's own, closed to unknown fields.
func kedaSchema() (*jsonschema.Schema, error) {
	text, err := os.ReadFile("testdata/keda.sh_scaledobjects.yaml")
	if err != nil {
		return nil, err
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := sigsyaml.Unmarshal(text, &crd); err != nil {
		return nil, err
	}
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	closeSchema(schema)
	schema["properties"].(map[string]any)["metadata"] = map[string]any{"type": "object"}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("scaledobject.json", schema); err != nil {
		return nil, err
	}
	return c.Compile("scaledobject.json")
}

func closeSchema(node any) {
	switch n := node.(type) {
	case map[string]any:
		_, named := n["properties"].(map[string]any)
		if _, more := n["additionalProperties"]; named && !more && n["x-kubernetes-preserve-unknown-fields"] == nil {
			n["additionalProperties"] = false
		}
		for _, v := range n {
			closeSchema(v)
		}
	case []any:
		for _, v := range n {
			closeSchema(v)
		}
	}
}

// set is everything that is deployed together.
type set struct {
	objects []runtime.Object
	pods    []pod
	errs    []error
}

// pod is the template of a workload.
type pod struct {
	name      string // Deployment/writer
	object    runtime.Object
	selector  *meta.LabelSelector
	template  core.PodTemplateSpec
	claims    []core.PersistentVolumeClaim
	replicas  *int32
	container map[string]core.Container
}

func newSet(objects []runtime.Object) *set {
	s := &set{objects: objects}
	for _, o := range objects {
		p := pod{object: o, container: map[string]core.Container{}}
		switch w := o.(type) {
		case *apps.Deployment:
			p.name, p.selector, p.template, p.replicas = "Deployment/"+w.Name, w.Spec.Selector, w.Spec.Template, w.Spec.Replicas
		case *apps.StatefulSet:
			p.name, p.selector, p.template, p.replicas = "StatefulSet/"+w.Name, w.Spec.Selector, w.Spec.Template, w.Spec.Replicas
			p.claims = w.Spec.VolumeClaimTemplates
		case *batch.Job:
			p.name, p.template = "Job/"+w.Name, w.Spec.Template
		default:
			continue
		}
		for _, c := range p.template.Spec.Containers {
			p.container[c.Name] = c
		}
		s.pods = append(s.pods, p)
	}
	return s
}

func (s *set) errorf(format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf(format, args...))
}

func (s *set) pod(name string) *pod {
	for i := range s.pods {
		if s.pods[i].name == name {
			return &s.pods[i]
		}
	}
	return nil
}

// verify is all checks on rendered manifests.
func verify(manifests []byte) error {
	objects, err := decode(manifests)
	if err != nil {
		return err
	}
	s := newSet(objects)
	s.checkNames()
	s.checkSelectors()
	s.checkPods()
	s.checkSecurity()
	s.checkServices()
	s.checkReach()
	s.checkScaling()
	return errors.Join(s.errs...)
}

func (s *set) checkNames() {
	seen := map[string]bool{}
	for _, o := range s.objects {
		m := o.(meta.Object)
		kind := o.GetObjectKind().GroupVersionKind().Kind
		id := kind + "/" + m.GetName()
		if seen[id] {
			s.errorf("%s stands twice", id)
		}
		seen[id] = true
		if kind != "Namespace" && m.GetNamespace() != "calferry" {
			s.errorf("%s is in namespace %q", id, m.GetNamespace())
		}
	}
	if !seen["Namespace/calferry"] {
		s.errorf("there is no Namespace calferry")
	}
}

func TestManifestsAreValid(t *testing.T) {
	t.Parallel()
	for name, manifests := range map[string][]byte{
		"base": must(render(base)), "prod": must(render(prod)), "prod with HPA": withHPA(t),
	} {
		require.NoError(t, verify(manifests), name)
		t.Logf("%s: %d objects", name, bytes.Count(manifests, []byte("\nkind: ")))
	}
}

// One broken manifest of each kind, each in a way that only reading it with the others finds, or that a server would
// not say until it is too late.
func TestBrokenManifestsAreRefused(t *testing.T) {
	t.Parallel()
	keda, hpa := string(must(render(prod))), string(withHPA(t))
	covered := map[string]bool{}
	for _, c := range []struct{ kind, name, old, new, want string }{
		{"Namespace", "calferry", "name: calferry", "name: other", "no Namespace calferry"},
		{"Namespace", "calferry", "enforce: restricted", "enforce: baseline", "does not enforce"},
		{"ConfigMap", "nats-", "name: nats-", "name: cats-", "ConfigMap nats-"},
		{"ConfigMap", "redis-", "data:", "date:", `unknown field "date"`},
		{"Service", "nats-peers", "app: nats", "app: gnats", "selects no pod"},
		{"Service", "state", "targetPort: http", "targetPort: web", "no port named web"},
		{"Deployment", "writer", "periodSeconds", "periodSecond", `unknown field`},
		{"Deployment", "writer", "matchLabels:\n      app: writer", "matchLabels:\n      app: rider", "selector"},
		{"Deployment", "fetcher", "mountPath: /secrets\n          name: secrets", "mountPath: /secrets\n          name: secret", "volume secret"},
		{"Deployment", "fetcher", "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true", "allowPrivilegeEscalation"},
		{"Deployment", "state", "runAsNonRoot: true", "runAsNonRoot: false", "runAsNonRoot"},
		{"Deployment", "state", "memory: 256Mi", "memory: 256Mx", "quantities"},
		{"Deployment", "state", "path: /livez", "path: /readyz", "liveness"},
		{"Deployment", "writer", "terminationGracePeriodSeconds: 45", "terminationGracePeriodSeconds: 30", "grace"},
		{"Deployment", "writer", "CALFERRY_WRITER_WORKERS", "CALFERRY_WRITER_WORKER", "CALFERRY_WRITER_WORKER"},
		{"Deployment", "writer", "name: calferry-redis", "name: calferry-account-key", "account"},
		{"Deployment", "redis", "image: valkey/valkey:8.1-alpine", "image: valkey/valkey", "version"},
		{"StatefulSet", "nats", "serviceName: nats-peers", "serviceName: nuts-peers", "no Service nuts-peers"},
		{"StatefulSet", "nats", "mountPath: /data\n          name: data", "mountPath: /data\n          name: date", "volume date"},
		{"Job", "provision", "restartPolicy: OnFailure", "restartPolicy: Always", "restart"},
		{"Job", "provision", "--replicas=3", "--replica=3", "--replica"},
		{"PodDisruptionBudget", "writer", "maxUnavailable: 1", "maxUnavailable: 0", "lets no pod go"},
		{"PodDisruptionBudget", "state", "app: state", "app: states", "selects no pod"},
		{"NetworkPolicy", "default-deny", "- Ingress", "- Egress", "by anybody"},
		{"NetworkPolicy", "internet", "- 10.0.0.0/8", "- 10.0.0.0/16", "10.1.2.3"},
		{"NetworkPolicy", "redis", "port: redis", "port: radish", "no port named radish"},
		{"ScaledObject", "writer", "fallback:", "fallbacks:", "fallbacks"},
		{"ScaledObject", "writer", "name: writer\n  triggers", "name: rider\n  triggers", "Deployment/rider"},
		{"ScaledObject", "writer", "minReplicaCount: 2", "minReplicaCount: 1", "minimum"},
		{"ScaledObject", "writer", `threshold: "72"`, `threshold: "96"`, "three quarters"},
		{"HorizontalPodAutoscaler", "writer", "maxReplicas: 7", "maxReplica: 7", "unknown field"},
		{"HorizontalPodAutoscaler", "writer", "kind: Deployment\n    name: writer", "kind: Deployment\n    name: rider", "Deployment/rider"},
		{"PodMonitor", "services", "port: ops", "port: oops", "no port named oops"},
		{"PodMonitor", "nats", "interval", "intervall", "unknown field"},
		{"PrometheusRule", "calferry", "annotations:", "annotation:", "unknown field"},
	} {
		covered[c.kind] = true
		manifests := keda
		if c.kind == "HorizontalPodAutoscaler" {
			manifests = hpa
		}
		docs := strings.Split(manifests, "\n---\n")
		i := slices.IndexFunc(docs, func(d string) bool {
			head := "\n  name: " + c.name
			d = "\n" + d + "\n"
			return strings.Contains(d, "\nkind: "+c.kind+"\n") &&
				(strings.Contains(d, head+"\n") || strings.HasSuffix(c.name, "-") && strings.Contains(d, head))
		})
		require.GreaterOrEqual(t, i, 0, "%s %s", c.kind, c.name)
		require.Contains(t, docs[i], c.old, "%s %s", c.kind, c.name)
		docs[i] = strings.Replace(docs[i], c.old, c.new, 1)
		err := verify([]byte(strings.Join(docs, "\n---\n")))
		require.ErrorContains(t, err, c.want, "%s %s with %s", c.kind, c.name, c.new)
	}
	for _, manifests := range []string{keda, hpa} {
		objects, err := decode([]byte(manifests))
		require.NoError(t, err)
		for _, o := range objects {
			require.True(t, covered[o.GetObjectKind().GroupVersionKind().Kind], o.GetObjectKind().GroupVersionKind().Kind)
		}
	}
}

func TestABrokenKustomizationIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../k8s")))
	file := filepath.Join(dir, "base", "kustomization.yaml")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, bytes.Replace(text, []byte("writer.yaml"), []byte("rider.yaml"), 1), 0o600))
	_, err = render(filepath.Join(dir, "base"))
	require.ErrorContains(t, err, "rider.yaml")
}
