//go:build deploy

package verify

import (
	"bufio"
	"bytes"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/spf13/pflag"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	admission "k8s.io/pod-security-admission/api"
	podsecurity "k8s.io/pod-security-admission/policy"

	"github.com/calferry/calferry/pkg/config"
	"github.com/calferry/calferry/pkg/daemon"
	"github.com/calferry/calferry/pkg/natsconn"
	"github.com/calferry/calferry/services/fetcher"
	"github.com/calferry/calferry/services/state"
	"github.com/calferry/calferry/services/writer"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newReader(b []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(b)) }

// selected are the pods that a selector matches.
func (s *set) selected(sel *meta.LabelSelector) []pod {
	match, err := meta.LabelSelectorAsSelector(sel)
	if err != nil {
		s.errorf("selector: %w", err)
		return nil
	}
	var out []pod
	for _, p := range s.pods {
		if match.Matches(labels.Set(p.template.Labels)) {
			out = append(out, p)
		}
	}
	return out
}

func hasPort(p pod, name string) bool {
	for _, c := range p.template.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == name {
				return true
			}
		}
	}
	return false
}

// checkSelectors: whatever selects pods selects some, and the ports it names are theirs.
func (s *set) checkSelectors() {
	want := func(who string, sel *meta.LabelSelector, ports ...string) {
		pods := s.selected(sel)
		if len(pods) == 0 {
			s.errorf("%s selects no pod", who)
		}
		for _, port := range ports {
			for _, p := range pods {
				if !hasPort(p, port) {
					s.errorf("%s: %s has no port named %s", who, p.name, port)
				}
			}
		}
	}
	named := func(ports []networking.NetworkPolicyPort) (names []string) {
		for _, p := range ports {
			if p.Port.Type == intstr.String {
				names = append(names, p.Port.StrVal)
			}
		}
		return names
	}
	for _, p := range s.pods {
		if p.selector != nil && !slices.ContainsFunc(s.selected(p.selector), func(o pod) bool { return o.name == p.name }) {
			s.errorf("the selector of %s does not match its own pods", p.name)
		}
		if p.selector != nil && len(s.selected(p.selector)) > 1 {
			s.errorf("the selector of %s matches other pods too", p.name)
		}
		for _, c := range p.template.Spec.TopologySpreadConstraints {
			want(p.name+" topology spread", c.LabelSelector)
		}
	}
	for _, o := range s.objects {
		switch o := o.(type) {
		case *core.Service:
			for _, p := range o.Spec.Ports {
				want("Service "+o.Name, &meta.LabelSelector{MatchLabels: o.Spec.Selector}, p.TargetPort.StrVal)
			}
		case *policy.PodDisruptionBudget:
			want("PodDisruptionBudget "+o.Name, o.Spec.Selector)
			if o.Spec.MaxUnavailable == nil || o.Spec.MaxUnavailable.IntValue() < 1 {
				s.errorf("PodDisruptionBudget %s lets no pod go", o.Name)
			}
		case *monitoring.PodMonitor:
			for _, e := range o.Spec.PodMetricsEndpoints {
				want("PodMonitor "+o.Name, &o.Spec.Selector, *e.Port)
			}
		case *networking.NetworkPolicy:
			want("NetworkPolicy "+o.Name, &o.Spec.PodSelector)
			for _, rule := range o.Spec.Ingress {
				want("NetworkPolicy "+o.Name, &o.Spec.PodSelector, named(rule.Ports)...)
			}
			for _, rule := range o.Spec.Egress {
				for _, to := range rule.To {
					if to.PodSelector != nil && to.NamespaceSelector == nil {
						want("NetworkPolicy "+o.Name, to.PodSelector, named(rule.Ports)...)
					}
				}
			}
		}
	}
}

// checkPods: what a pod mounts and refers to is there; images have a version; memory is bounded.
func (s *set) checkPods() {
	configs, services := map[string]*core.ConfigMap{}, map[string]bool{}
	for _, o := range s.objects {
		switch o := o.(type) {
		case *core.ConfigMap:
			configs[o.Name] = o
		case *core.Service:
			services[o.Name] = true
		}
	}
	secret := func(who, name, key string) {
		if guide := must(os.ReadFile("../../docs/guides/kubernetes.md")); !regexp.MustCompile(`secret generic ` + name + `\b[^\n]*(\\\n[^\n]*)*` + regexp.QuoteMeta(key) + `\b`).Match(guide) {
			s.errorf("%s: the guide does not say how to make key %s of Secret %s", who, key, name)
		}
	}
	for _, p := range s.pods {
		if set, ok := p.object.(*apps.StatefulSet); ok && !services[set.Spec.ServiceName] {
			s.errorf("%s: there is no Service %s", p.name, set.Spec.ServiceName)
		}
		if job, ok := p.object.(*batch.Job); ok && job.Spec.Template.Spec.RestartPolicy == core.RestartPolicyAlways {
			s.errorf("%s: a Job's pods cannot restart always", p.name)
		}
		volumes := map[string]bool{}
		for _, c := range p.claims {
			volumes[c.Name] = true
		}
		for _, v := range p.template.Spec.Volumes {
			volumes[v.Name] = true
			switch {
			case v.ConfigMap != nil && configs[v.ConfigMap.Name] == nil:
				s.errorf("%s: there is no ConfigMap %s", p.name, v.ConfigMap.Name)
			case v.Secret != nil:
				for _, key := range []string{"tls.crt", "tls.key", "ca.crt"} {
					secret(p.name, v.Secret.SecretName, key)
				}
			case v.Projected != nil:
				for _, from := range v.Projected.Sources {
					for _, item := range from.Secret.Items {
						secret(p.name, from.Secret.Name, item.Key)
					}
				}
			}
		}
		for _, c := range p.template.Spec.Containers {
			for _, m := range c.VolumeMounts {
				if !volumes[m.Name] {
					s.errorf("%s mounts volume %s, which it does not have", p.name, m.Name)
				}
			}
			for _, e := range c.Env {
				if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
					secret(p.name, e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Key)
				}
			}
			for _, probe := range []*core.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
				if probe == nil {
					continue
				}
				port := ""
				if probe.HTTPGet != nil {
					port = probe.HTTPGet.Port.StrVal
				} else if probe.TCPSocket != nil {
					port = probe.TCPSocket.Port.StrVal
				}
				if !hasPort(p, port) {
					s.errorf("%s: a probe asks a port that it has no name for: %q", p.name, port)
				}
			}
			if !strings.HasPrefix(c.Image, "calferry/") && !regexp.MustCompile(`(:[0-9][^/]*|@sha256:[0-9a-f]{64})$`).MatchString(c.Image) {
				s.errorf("%s: image %s names no version", p.name, c.Image)
			}
			if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
				s.errorf("%s: container %s has no bound of memory, or asks for no processor", p.name, c.Name)
			}
		}
	}
}

// checkSecurity: Pod Security "restricted", and keys only where they belong.
func (s *set) checkSecurity() {
	evaluator := must(podsecurity.NewEvaluator(podsecurity.DefaultChecks(), nil))
	level := admission.LevelVersion{Level: admission.LevelRestricted, Version: admission.LatestVersion()}
	keys := map[string][]string{"calferry-account-key": {"state"}, "calferry-feed-key": {"fetcher", "state"}, "calferry-console": {"state"}, "calferry-redis": {"redis", "writer"}}
	for _, p := range s.pods {
		for _, r := range evaluator.EvaluatePod(level, &p.template.ObjectMeta, &p.template.Spec) {
			if !r.Allowed {
				s.errorf("%s is not restricted: %s: %s", p.name, r.ForbiddenReason, r.ForbiddenDetail)
			}
		}
		if auto := p.template.Spec.AutomountServiceAccountToken; auto == nil || *auto {
			s.errorf("%s mounts a token of the API server", p.name)
		}
		app := p.template.Labels["app"]
		for _, v := range p.template.Spec.Volumes {
			if v.Projected == nil {
				continue
			}
			for _, from := range v.Projected.Sources {
				if allowed, known := keys[from.Secret.Name]; known && !slices.Contains(allowed, app) {
					s.errorf("%s holds Secret %s", p.name, from.Secret.Name)
				}
				for _, item := range from.Secret.Items {
					if from.Secret.Name == "calferry-nats" && item.Key != app {
						s.errorf("%s holds the NATS password of %s", p.name, item.Key)
					}
				}
			}
		}
	}
	for _, o := range s.objects {
		if ns, ok := o.(*core.Namespace); ok && ns.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
			s.errorf("Namespace %s does not enforce Pod Security restricted", ns.Name)
		}
	}
}

// settings are what each program can be told.
func settings(name string) []any {
	return map[string][]any{
		"fetcher":   {&daemon.Settings{}, &fetcher.Process{}},
		"writer":    {&daemon.Settings{}, &writer.Process{}},
		"state":     {&daemon.Settings{}, &state.Process{}},
		"provision": {&natsconn.Config{}},
	}[name]
}

// checkServices: probes and grace are as a turn needs them, and every setting exists.
func (s *set) checkServices() {
	for name, container := range map[string]string{"fetcher": "service", "writer": "service", "state": "service", "provision": "provision"} {
		p := s.pod("Deployment/" + name)
		if p == nil {
			p = s.pod("Job/" + name)
		}
		if p == nil {
			s.errorf("there is no workload %s", name)
			continue
		}
		c := p.container[container]
		flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
		binding := must(config.Bind(flags, settings(name)...))
		known := map[string]bool{}
		for _, one := range binding.Settings() {
			known[one.Env], known[one.Env+"_FILE"] = true, true
		}
		for _, e := range c.Env {
			if strings.HasPrefix(e.Name, "CALFERRY_") && !known[e.Name] {
				s.errorf("%s does not know the setting %s", name, e.Name)
			}
		}
		if name == "provision" {
			if !slices.Equal(c.Args, []string{"provision", "--replicas=3"}) {
				s.errorf("provision is called with %q", c.Args)
			}
			continue
		}
		if c.LivenessProbe.HTTPGet.Path != "/livez" || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
			s.errorf("%s: the liveness probe must ask /livez, which asks nobody else, and readiness /readyz", name)
		}
		const hardEnd = 35 // a turn's
		if grace := *p.template.Spec.TerminationGracePeriodSeconds; c.Lifecycle.PreStop.Sleep.Seconds+hardEnd >= grace {
			s.errorf("%s: a grace of %d s is no longer than preStop and a turn", name, grace)
		}
	}
}

// checkReach: by the policies, who reaches what.
func (s *set) checkReach() {
	for _, p := range s.pods {
		app := p.template.Labels["app"]
		if len(s.policies(app, networking.PolicyTypeIngress)) == 0 || len(s.policies(app, networking.PolicyTypeEgress)) == 0 {
			s.errorf("%s may be reached by anybody, or reach everybody", app)
		}
	}
	for _, c := range []struct {
		app, address string
		port         int
		may          bool
	}{
		{"fetcher", "93.184.215.14", 443, true},
		{"fetcher", "93.184.215.14", 80, true},
		{"state", "93.184.215.14", 80, true}, // previews read feeds too
		{"writer", "93.184.215.14", 80, false},
		{"fetcher", "2606:4700:4700::1111", 443, true},
		{"fetcher", "93.184.215.14", 22, false},
		{"fetcher", "10.1.2.3", 443, false},
		{"fetcher", "172.20.0.1", 80, false},
		{"fetcher", "192.168.1.1", 443, false},
		{"fetcher", "169.254.169.254", 80, false},
		{"fetcher", "100.64.0.1", 443, false},
		{"fetcher", "127.0.0.1", 443, false},
		{"fetcher", "168.63.129.16", 80, false},
		{"fetcher", "fd00:ec2::254", 80, false},
		{"fetcher", "::ffff:10.0.0.1", 443, false},
		{"fetcher", "64:ff9b::a00:1", 443, false},
		{"writer", "142.250.1.1", 443, true},
		{"writer", "142.250.1.1", 80, false},
		{"writer", "10.1.2.3", 443, false},
		{"state", "142.250.1.1", 443, true},
		{"nats", "93.184.215.14", 443, false},
		{"redis", "93.184.215.14", 443, false},
		{"provision", "93.184.215.14", 443, false},
	} {
		if s.reachesAddress(c.app, netip.MustParseAddr(c.address), c.port) != c.may {
			s.errorf("%s may reach %s:%d: %t, wanted %t", c.app, c.address, c.port, !c.may, c.may)
		}
	}
	for _, c := range []struct {
		from, to, port string
		may            bool
	}{
		{"fetcher", "nats", "client", true},
		{"writer", "nats", "client", true},
		{"state", "nats", "client", true},
		{"provision", "nats", "client", true},
		{"nats", "nats", "peers", true},
		{"writer", "redis", "redis", true},
		{"fetcher", "redis", "redis", false},
		{"state", "redis", "redis", false},
		{"redis", "nats", "client", false},
		{"fetcher", "state", "http", false},
		{"writer", "nats", "monitor", false},
		{"writer", "nats", "peers", false},
	} {
		if got := s.reachesPod(c.from, c.to, c.port); got != c.may {
			s.errorf("%s may reach %s at %s: %t, wanted %t", c.from, c.to, c.port, got, c.may)
		}
	}
}

// policies of one direction for pods labelled app; restricted tells whether there is any.
func (s *set) policies(app string, direction networking.PolicyType) (out []*networking.NetworkPolicy) {
	for _, o := range s.objects {
		p, ok := o.(*networking.NetworkPolicy)
		if ok && slices.Contains(p.Spec.PolicyTypes, direction) && matches(&p.Spec.PodSelector, app) {
			out = append(out, p)
		}
	}
	return out
}

func matches(sel *meta.LabelSelector, app string) bool {
	return must(meta.LabelSelectorAsSelector(sel)).Matches(labels.Set{"app": app})
}

func (s *set) reachesAddress(app string, to netip.Addr, port int) bool {
	rules := s.policies(app, networking.PolicyTypeEgress)
	for _, p := range rules {
		for _, rule := range p.Spec.Egress {
			if !slices.ContainsFunc(rule.Ports, func(o networking.NetworkPolicyPort) bool { return o.Port.IntValue() == port }) {
				continue
			}
			for _, peer := range rule.To {
				if peer.IPBlock == nil || !netip.MustParsePrefix(peer.IPBlock.CIDR).Contains(to) {
					continue
				}
				if !slices.ContainsFunc(peer.IPBlock.Except, func(x string) bool { return netip.MustParsePrefix(x).Contains(to) }) {
					return true
				}
			}
		}
	}
	return len(rules) == 0
}

func (s *set) reachesPod(from, to, port string) bool {
	named := func(ports []networking.NetworkPolicyPort) bool {
		return slices.ContainsFunc(ports, func(o networking.NetworkPolicyPort) bool { return o.Port.StrVal == port })
	}
	peer := func(peers []networking.NetworkPolicyPeer, app string) bool {
		return slices.ContainsFunc(peers, func(o networking.NetworkPolicyPeer) bool {
			return o.PodSelector != nil && o.NamespaceSelector == nil && matches(o.PodSelector, app)
		})
	}
	out, in := s.policies(from, networking.PolicyTypeEgress), s.policies(to, networking.PolicyTypeIngress)
	leaves, enters := len(out) == 0, len(in) == 0
	for _, p := range out {
		for _, rule := range p.Spec.Egress {
			leaves = leaves || named(rule.Ports) && peer(rule.To, to)
		}
	}
	for _, p := range in {
		for _, rule := range p.Spec.Ingress {
			enters = enters || named(rule.Ports) && peer(rule.From, from)
		}
	}
	return leaves && enters
}

// checkScaling: an autoscaler has a target that leaves it the number, and asks for it by the right rule.
func (s *set) checkScaling() {
	check := func(who, target string, least, most int, threshold string) {
		p := s.pod("Deployment/" + target)
		if p == nil {
			s.errorf("%s scales Deployment/%s, which does not exist", who, target)
			return
		}
		if p.replicas != nil {
			s.errorf("%s: Deployment/%s sets its replicas too, and each apply would undo the scaling", who, target)
		}
		workers := 0
		for _, e := range p.container["service"].Env {
			if e.Name == "CALFERRY_WRITER_WORKERS" {
				workers, _ = strconv.Atoi(e.Value)
			}
		}
		if strconv.Itoa(workers*3/4) != threshold {
			s.errorf("%s: a threshold of %s is not three quarters of %d workers", who, threshold, workers)
		}
		if least*workers < 192 || least < 2 {
			s.errorf("%s: a minimum of %d writers has fewer than 192 workers", who, least)
		}
		if most < least {
			s.errorf("%s: the maximum is below the minimum", who)
		}
	}
	for _, o := range s.objects {
		switch o := o.(type) {
		case *scaledObject:
			trigger := o.Spec.Triggers[0]
			check("ScaledObject", o.Spec.ScaleTargetRef.Name, o.Spec.MinReplicaCount, o.Spec.MaxReplicaCount, trigger.Metadata["threshold"])
			if len(o.Spec.Triggers) != 1 || trigger.Type != "prometheus" || trigger.Metadata["ignoreNullValues"] != "false" {
				s.errorf("ScaledObject: one trigger, by Prometheus, to which a missing number is not zero")
			}
		case *autoscaling.HorizontalPodAutoscaler:
			target := o.Spec.Metrics[0].External.Target
			check("HorizontalPodAutoscaler", o.Spec.ScaleTargetRef.Name, int(*o.Spec.MinReplicas), int(o.Spec.MaxReplicas), target.AverageValue.String())
		}
	}
}
