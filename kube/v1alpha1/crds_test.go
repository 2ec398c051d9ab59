// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/v1alpha1"
)

var shared kubetest.Shared

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(shared.Main(m))
}

const definitions = "../../deploy/chart/crds"

var installed struct {
	once sync.Once
	err  error
}

// open returns a client of a cluster that has the CRDs.
func open(t *testing.T) client.Client {
	t.Helper()
	c := shared.Cluster(t)
	installed.once.Do(func() {
		_, installed.err = envtest.InstallCRDs(c.Admin(), envtest.CRDInstallOptions{Paths: []string{definitions}, ErrorIfPathMissing: true})
	})
	if installed.err != nil {
		t.Fatal(installed.err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	k, err := client.New(c.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// parse reads an object.
func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	o.SetAPIVersion("fairway.dev/v1alpha1")
	return o
}

// job is a training job with more fields in its spec.
func job(spec string) string {
	const template = `template: {spec: {containers: [{name: main, image: trainer}]}}`
	if !strings.Contains(spec, "template:") {
		spec += ", " + template
	}
	return fmt.Sprintf("{kind: TrainingJob, metadata: {namespace: default, generateName: job-}, spec: {%s}}", strings.TrimPrefix(spec, ", "))
}

// shape is that of a small transformer.
const shape = "parameters: '3.3e6', layers: 4, hidden: 256, heads: 4, sequence: 64, batch: 16"

// roleJob is a training job without a template of its own.
func roleJob(roles string) string {
	return "{kind: TrainingJob, metadata: {namespace: default, generateName: job-}, spec: {roles: [" + roles + "]}}"
}

func app(spec string) string {
	return fmt.Sprintf("{kind: App, metadata: {namespace: default, generateName: app-}, spec: {search: {trials: 3, trial: {template: {spec: {containers: [{name: main}]}}}, %s}}}", spec)
}

// TestRules: what the API server accepts, what it rejects, and with which messages.
func TestRules(t *testing.T) {
	k := open(t)
	for _, c := range []struct{ object, want string }{
		{job(""), ""},
		{job("gpus: 8, minGPUs: 1, maxGPUs: 16, sizes: [1, 2, 4, 8, 16]"), ""},
		{job("gpus: 8, gpusPerPod: 4, gpuTypes: [h200, a100], gpuMemory: 40Gi, widest: rack, priority: -5"), ""},
		{job("estimate: 1h30m, notice: 30s, screen: 0s, retries: 3, retry: always, work: '1000.5', model: bert"), ""},
		{job("batch: {initial: 32, max: 512, adapt: true}, share: {allow: true, utilisation: 40, milliGPU: 500}"), ""},
		{job("gpus: 0"), "should be greater than or equal to 1"},
		{job("gpus: 1000000000000"), "should be less than or equal to 65536"},
		{job("gpus: many"), "must be of type integer"},
		{job("maxGPUs: 4"), "maxGPUs needs minGPUs: together they make the job elastic"},
		{job("minGPUs: 4"), "minGPUs must be at most maxGPUs"},
		{job("gpus: 4, minGPUs: 8, maxGPUs: 4"), "minGPUs must be at most maxGPUs"},
		{job("gpus: 4, minGPUs: 5, maxGPUs: 8"), "gpus must lie between minGPUs and maxGPUs"},
		{job("gpus: 6, gpusPerPod: 4"), "gpus must be a multiple of gpusPerPod"},
		{job("gpus: 2, gpusPerPod: 0"), "should be greater than or equal to 1"},
		{job("sizes: [1, 2]"), "sizes need minGPUs and maxGPUs"},
		{job("gpus: 3, minGPUs: 1, maxGPUs: 4, sizes: [1, 2, 4]"), "gpus must be one of sizes"},
		{job("gpus: 2, minGPUs: 1, maxGPUs: 4, sizes: [4, 2, 1]"), "sizes must be in ascending order"},
		{job("batch: {initial: 512, max: 32}"), "max must be at least initial"},
		{job("gpus: 8, topology: [{required: zone}, {segment: 4, preferred: nvlink-domain}]"), ""},
		{job("topology: [{required: zone, preferred: rack}]"), "one of required and preferred names the level"},
		{job("topology: [{segment: 4}]"), "one of required and preferred names the level"},
		{job("topology: [{segment: 4, required: slot}]"), "slot can only be required, and only of the whole gang"},
		{job("topology: [{segment: 0, required: zone}]"), "segment"},
		{job("template: {spec: {containers: [{name: main}]}}, roles: [{name: trainer, gpus: 2}, {name: rollout, gpus: 1, maxGPUs: 6, template: {spec: {containers: [{name: main}]}}}]"), ""},
		{roleJob("{name: trainer, gpus: 1, template: {spec: {containers: [{name: main}]}}}"), ""},
		{roleJob("{name: trainer, gpus: 1}"), "template is missing: it, or every role, says what the pods are"},
		{roleJob("{name: trainer, gpus: 1, template: {spec: {containers: []}}}"), "template.spec.containers must name at least one container"},
		{roleJob("{name: trainer, gpus: 1, template: {spec: {nodeName: node-1, containers: [{name: main}]}}}"), "Fairway chooses the nodes"},
		{"{kind: TrainingJob, metadata: {namespace: default, generateName: job-}, spec: {gpus: 1}}", "template is missing"},
		{job("roles: []"), "should have at least 1 items"},
		{job("roles: [{name: a, gpus: 1}, {name: a, gpus: 1}]"), "each role needs its own name"},
		{job("roles: [{name: Trainer, gpus: 1}]"), "should match"},
		{job("roles: [{name: a, gpus: 0}]"), "should be greater than or equal to 1"},
		{job("roles: [{name: a}]"), "gpus"},
		{job("roles: [{name: a, gpus: 2, maxGPUs: 1}]"), "maxGPUs must be at least gpus"},
		{job("roles: [{name: a, gpus: 1, maxGPUs: 2}, {name: b, gpus: 1, maxGPUs: 2}]"), "only one role can be elastic"},
		{job("gpus: 2, roles: [{name: a, gpus: 2}]"), "the size of the job is the sum of its roles'"},
		{job("minGPUs: 1, maxGPUs: 2, roles: [{name: a, gpus: 2}]"), "the size of the job is the sum of its roles'"},
		{job("gpusPerPod: 2, gpus: 2, roles: [{name: a, gpus: 2}]"), "each pod of a role has one GPU"},
		{job("plans: {model: {" + shape + "}, list: [fsdp2, fsdp2-tp2], generate: ['tp<=8']}"), ""},
		{job("plans: {model: {" + shape + "}}"), "list names of plans such as fsdp4, or kinds of plans to generate such as fsdp"},
		{job("plans: {list: [fsdp2]}"), "model"},
		{job("plans: {model: {parameters: many, layers: 4, hidden: 256, heads: 4, sequence: 64, batch: 16}, list: [fsdp2]}"), "should match"},
		{job("plans: {model: {parameters: '1e6', layers: 0, hidden: 256, heads: 4, sequence: 64, batch: 16}, list: [fsdp2]}"), "should be greater than or equal to 1"},
		{job("batch: {adapt: true}, plans: {model: {" + shape + "}, list: [fsdp2]}"), "batch.adapt and share must be left out beside plans"},
		{job("share: {allow: true}, plans: {model: {" + shape + "}, list: [fsdp2]}"), "batch.adapt and share must be left out beside plans"},
		{job("roles: [{name: a, gpus: 2}], plans: {model: {" + shape + "}, list: [fsdp2]}"), "plans must be left out beside roles"},
		{job("widest: galaxy"), `supported values: "slot", "machine", "rack", "cross-rack"`},
		{job("estimate: a while"), "should match"},
		{job("estimate: 99999999999h"), "should match"},
		{job("work: '1e300'"), "should match"},
		{job("app: a/b"), "should match"},
		{job("template: {spec: {containers: []}}"), "template.spec.containers must name at least one container"},
		{job("template: {spec: {nodeName: node-1, containers: [{name: main}]}}"), "Fairway chooses the nodes"},
		{job("gpuMemory: 1e999999999"), "should match"},
		{job("template: {spec: {containers: [{name: main, resources: {limits: {cpu: 1e999999999}}}]}}"), "should match"},
		{strings.Replace(job(""), "generateName: job-", "name: "+strings.Repeat("a", 51), 1), "metadata.name has more than 50 letters"},
		{"{kind: Tenant, metadata: {generateName: t-}, spec: {namespaces: [a], quota: 4, max: 8, weight: '1.5'}}", ""},
		{"{kind: Tenant, metadata: {generateName: t-}, spec: {namespaces: [a], parent: research}}", ""},
		{"{kind: Tenant, metadata: {generateName: t-}, spec: {quota: 8}}", ""}, // for those below it
		{"{kind: Tenant, metadata: {generateName: t-}, spec: {maxByType: {h100: 8, t4: 0}}}", ""},
		{"{kind: Tenant, metadata: {generateName: t-}, spec: {maxByType: {h100: -1}}}", "maxByType has names of types"},
		{"{kind: Tenant, metadata: {generateName: t-}, spec: {parent: [research]}}", "must be of type string"},
		{"{kind: Tenant, metadata: {generateName: t-}, spec: {namespaces: [a, a]}}", "Duplicate value"},
		{"{kind: Tenant, metadata: {generateName: t-}, spec: {namespaces: [a], quota: 9, max: 8}}", "max must be at least quota"},
		{"{kind: Tenant, metadata: {generateName: t-}, spec: {namespaces: [a], weight: '-1'}}", "should match"},
		{"{kind: SchedulingPolicy, metadata: {name: other}, spec: {policy: fifo}}", "there is one scheduling policy: name it cluster"},
		{"{kind: SchedulingPolicy, metadata: {name: cluster}, spec: {policy: ''}}", "should be at least 1 chars long"},
		{app("parameters: {lr: {min: '0.001', max: '1e-1', log: true}, opt: {values: [sgd, adam]}}"), ""},
		{app("parameters: {lr: {min: '0.001'}}"), "a parameter has either values, or min and max"},
		{app("parameters: {lr: {min: '1', max: '2', values: [a]}}"), "a parameter has either values, or min and max"},
		{app("parameters: {lr: {min: much, max: '2'}}"), "should match"},
		{app("parameters: {}"), "should have at least 1 properties"},
	} {
		err := k.Create(t.Context(), parse(t, c.object))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v; want it taken", c.object, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v; want %q", c.object, err, c.want)
		case c.want != "" && strings.Contains(err.Error(), "rule:"): // the API server adds this if a rule itself fails
			t.Errorf("%s: %v; want nothing of how rules are written", c.object, err)
		}
	}
}

// TestFixed: fields that cannot be changed later, alone or together with one that can.
func TestFixed(t *testing.T) {
	k := open(t)
	for _, c := range []struct{ edit, want string }{
		{`{"spec": {"suspend": true}}`, ""},
		{`{"spec": {"suspend": null}}`, ""},
		{`{"metadata": {"labels": {"a": "b"}}}`, ""},
		{`{"spec": {"gpus": 3}}`, "only suspend can be changed"},
		{`{"spec": {"suspend": true, "gpus": 3}}`, "only suspend can be changed"},
		{`{"spec": {"suspend": true, "priority": 9}}`, "only suspend can be changed"},
		{`{"spec": {"tenant": "rich"}}`, "only suspend can be changed"},
		{`{"spec": {"estimate": "1h"}}`, "only suspend can be changed"},
		{`{"spec": {"roles": [{"name": "a", "gpus": 2}], "gpus": null}}`, "only suspend can be changed"},
		{`{"spec": {"model": null}}`, "only suspend can be changed"},
		{`{"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "other"}]}}}}`, "only suspend can be changed"},
		{`{"spec": {"suspend": true, "template": {"spec": {"hostNetwork": true}}}}`, "only suspend can be changed"},
		{`{"spec": {"template": {"spec": {"volumes": [{"name": "data", "hostPath": {}}]}}}}`, "only suspend can be changed"},
		{`{"spec": {"template": {"spec": {"volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}]}}}}`, "only suspend can be changed"},
		{`{"spec": {"template": {"spec": {"volumes": [{"name": "data", "emptyDir": {}}]}}}}`, ""},
		{`{"status": {"state": "finished"}}`, ""},
	} {
		o := parse(t, job("gpus: 2, model: bert, template: {spec: {containers: [{name: main, image: trainer}], volumes: [{name: data, emptyDir: {}}]}}"))
		if err := k.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		err := k.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(c.edit)))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v; want it taken", c.edit, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v; want %q", c.edit, err, c.want)
		}
		if state, found, _ := unstructured.NestedString(o.Object, "status", "state"); found {
			t.Errorf("%s: the state is %q; only the status subresource may set it", c.edit, state)
		}
	}
	page := parse(t, `{kind: JournalPage, metadata: {namespace: default, name: p-1}, holds: records, first: 1, count: 2, data: aGVsbG8=}`)
	if err := k.Create(t.Context(), page); err != nil {
		t.Fatal(err)
	}
	for _, edit := range []string{`{"data": "b3RoZXI="}`, `{"data": null}`, `{"count": 3}`, `{"parts": ["x"]}`} {
		err := k.Patch(t.Context(), page, client.RawPatch("application/merge-patch+json", []byte(edit)))
		if err == nil || !strings.Contains(err.Error(), "a page is never changed") {
			t.Errorf("%s: %v; want it refused", edit, err)
		}
	}
}

// TestHostile: whatever objects users create, all objects of the kind can still be
// listed.
func TestHostile(t *testing.T) {
	k := open(t)
	big := strings.Repeat("x", 1<<20)
	deep := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	for name, object := range map[string]string{
		"a label of 1 MB":          strings.Replace(job(""), "generateName:", "labels: {a: "+big+"}, generateName:", 1),
		"annotations of 1 MB":      strings.Replace(job(""), "generateName:", "annotations: {a: "+big+"}, generateName:", 1),
		"a model of 1 MB":          job("model: " + big),
		"an argument of 4 MB":      job("template: {spec: {containers: [{name: main, args: [" + big + big + big + big + "]}]}}"),
		"a negative size":          job("gpus: -1"),
		"a fraction of a GPU":      job("gpus: 1.5"),
		"too many sizes":           job("gpus: 1, minGPUs: 1, maxGPUs: 999, sizes: [" + strings.TrimSuffix(strings.Repeat("1, ", 999), ", ") + "]"),
		"a quantity like no other": job("gpuMemory: 99999999999999999999999999999Ei"),
	} {
		err := k.Create(t.Context(), parse(t, object))
		if err == nil {
			t.Errorf("%s: taken; want it refused", name)
		}
	}
	o := parse(t, job(""))
	raw := []byte(fmt.Sprintf(`{"spec": {"template": {"spec": {"volumes": %s}}}}`, deep))
	if err := k.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := k.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", raw)); err == nil {
		t.Error("a template 20,000 levels deep: taken; want it refused")
	}
	// Templates that the API server accepts and Fairway refuses.
	for _, template := range badTemplates {
		if err := k.Create(t.Context(), parse(t, job("template: "+template.text))); err != nil {
			t.Errorf("%s: %v; want it taken", template.text, err)
		}
	}
	var all v1alpha1.TrainingJobList
	if err := k.List(t.Context(), &all); err != nil {
		t.Errorf("list: %v", err)
	}
	problems := 0
	for i := range all.Items {
		if all.Items[i].Spec.Template.Problem != "" {
			problems++
		}
	}
	if problems != len(badTemplates) {
		t.Errorf("%d of %d jobs have a bad template; want %d", problems, len(all.Items), len(badTemplates))
	}
}

// badTemplates fit the outline in the CRD schema.
var badTemplates = []struct{ text, want string }{
	{"{spec: {containers: [{name: main, ports: [{containerPort: 99999999999}]}]}}", "cannot unmarshal number 99999999999"},
	{"{spec: {containers: [{name: main, ports: [{containerPort: http}]}]}}", `template.spec.containers[0].ports[0].containerPort is "http"; want a number`},
	{"{spec: {containers: [{name: main, env: {A: b}}]}}", `template.spec.containers[0].env is "map[A:b]"; want a list`},
	{"{spec: {containers: [{name: main}], volumes: [{name: data, emptyDirectory: {}}]}}", `template.spec.volumes[0] has no field "emptyDirectory"`},
	{"{spec: {containers: [{name: main}], volumes: [{name: data, emptyDir: {sizeLimit: 1e999999999}}]}}", `template.spec.volumes[0].emptyDir.sizeLimit is "1e999999999"; use at most 15 digits`},
	{"{spec: {containers: [{name: main}], securityContext: none}}", `template.spec.securityContext is "none"; want an object`},
}

// TestBadTemplate: a template that cannot be decoded says what is wrong with it, and
// the object around it is decoded.
func TestBadTemplate(t *testing.T) {
	for _, c := range badTemplates {
		var got v1alpha1.TrainingJob
		if err := yaml.Unmarshal([]byte(job("gpus: 2, template: "+c.text)), &got); err != nil {
			t.Errorf("%s: %v; want it read", c.text, err)
		}
		if p := got.Spec.Template.Problem; !strings.Contains(p, c.want) || got.Spec.GPUs != 2 || got.Spec.Template.Spec.Containers != nil {
			t.Errorf("%s: problem %q; want %q, and no template", c.text, p, c.want)
		}
	}
	good := "{metadata: {labels: {a: b}}, spec: {containers: [{name: main, ports: [{containerPort: 80}], env: [{name: LR, value: '1e-999'}], resources: {limits: {cpu: 2, memory: 1Gi}}, livenessProbe: {httpGet: {port: http}}}], " +
		"volumes: [{name: data, ephemeral: {volumeClaimTemplate: {spec: {resources: {requests: {storage: 1Gi}}}}}}]}}"
	var got v1alpha1.TrainingJob
	if err := yaml.Unmarshal([]byte(job("template: "+good)), &got); err != nil || got.Spec.Template.Problem != "" {
		t.Errorf("%q, %v; want it read", got.Spec.Template.Problem, err)
	}
	if c := got.Spec.Template.Spec.Containers[0]; c.Resources.Limits.Cpu().Value() != 2 || c.Env[0].Value != "1e-999" || got.Spec.Template.Labels["a"] != "b" {
		t.Errorf("container %+v; want what was written", c)
	}
}

// TestTemplateKept: labels and annotations of the pods are preserved.
func TestTemplateKept(t *testing.T) {
	k := open(t)
	o := parse(t, job("template: {metadata: {labels: {a: b}, annotations: {c: d}}, spec: {containers: [{name: main, command: [x]}], nodeSelector: {e: f}}}"))
	if err := k.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	var got v1alpha1.TrainingJob
	if err := k.Get(t.Context(), client.ObjectKeyFromObject(o), &got); err != nil {
		t.Fatal(err)
	}
	template := got.Spec.Template
	if template.Labels["a"] != "b" || template.Annotations["c"] != "d" || template.Spec.NodeSelector["e"] != "f" {
		t.Errorf("template %+v; want its labels, annotations and node selector", template)
	}
	if got.Spec.GPUs != 1 || got.Spec.GPUResource != "nvidia.com/gpu" {
		t.Errorf("%d GPUs of %s; want the defaults", got.Spec.GPUs, got.Spec.GPUResource)
	}
}

// ask reads a path of the API server.
func ask(t *testing.T, path, accept string) map[string]any {
	t.Helper()
	config := shared.Cluster(t).Admin()
	h, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := rest.UnversionedRESTClientForConfigAndClient(withCodec(config), h)
	if err != nil {
		t.Fatal(err)
	}
	text, err := kube.Get().AbsPath(path).SetHeader("Accept", accept).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
