// The official JavaScript client against a running embedded cluster.
//
// Applies, watches, patches, reads logs, runs a command, checks access and deletes. KUBECONFIG names the cluster.

import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import * as k8s from '@kubernetes/client-node';

const namespace = 'default';
const config = new k8s.KubeConfig();
config.loadFromDefault();
config.setCurrentContext('admin');
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);

/** Resolves with the first event of a watch that `wanted` accepts. */
async function event(path, query, wanted) {
  const watch = new k8s.Watch(config);
  return new Promise((resolve, reject) => {
    let controller;
    const done = watch.watch(path, query, (type, object) => {
      if (wanted(type, object)) {
        controller?.abort();
        resolve(object);
      }
    }, (error) => {
      if (error && error.name !== 'AbortError') reject(error);
    });
    done.then((given) => { controller = given; }, reject);
  });
}

async function status(promise) {
  try {
    await promise;
  } catch (error) {
    return error.code ?? error.statusCode;
  }
  return undefined;
}

async function configMaps() {
  const body = { metadata: { name: 'js' }, data: { a: '1' } };
  await core.createNamespacedConfigMap({ namespace, body });
  assert.equal(await status(core.createNamespacedConfigMap({ namespace, body })), 409);
  const read = await core.readNamespacedConfigMap({ namespace, name: 'js' });
  read.data.a = '2';
  await core.replaceNamespacedConfigMap({ namespace, name: 'js', body: read });
  assert.equal(await status(core.replaceNamespacedConfigMap({ namespace, name: 'js', body: read })), 409);
  const seen = event(`/api/v1/namespaces/${namespace}/configmaps`, { fieldSelector: 'metadata.name=js' },
    (type, object) => type === 'DELETED' && object.data.a === '2');
  // The deletion comes after the watch only if the watch is there: it replays what is.
  await event(`/api/v1/namespaces/${namespace}/configmaps`, { fieldSelector: 'metadata.name=js' },
    (type) => type === 'ADDED');
  await new Promise((resolve) => setTimeout(resolve, 500));
  await core.deleteNamespacedConfigMap({ namespace, name: 'js' });
  await seen;
  assert.equal(await status(core.readNamespacedConfigMap({ namespace, name: 'js' })), 404);
}

async function sensors() {
  const sensor = { apiVersion: 'argoproj.io/v1alpha1', kind: 'Sensor', metadata: { name: 'js', namespace },
    spec: { dependencies: [], triggers: [] } };
  await objects.create(sensor);
  const patched = await objects.patch({ ...sensor, spec: { x: 1 } }, undefined, undefined, undefined, undefined,
    'application/merge-patch+json');
  assert.equal(patched.spec.x, 1);
  const list = await objects.list('argoproj.io/v1alpha1', 'Sensor', namespace);
  assert.equal(list.items.length, 1);
  await objects.delete(sensor);
}

async function pods() {
  const labels = { app: 'js' };
  const container = { name: 'main', image: 'eventlab:dev', command: ['/eventlab'],
    args: ['ledger', 'serve', '--db', '/data/l.db', '--port', '8080'], ports: [{ containerPort: 8080 }],
    volumeMounts: [{ name: 'data', mountPath: '/data' }] };
  const template = { metadata: { labels }, spec: { containers: [container], volumes: [{ name: 'data', emptyDir: {} }] } };
  await apps.createNamespacedDeployment({ namespace,
    body: { metadata: { name: 'js' }, spec: { replicas: 1, selector: { matchLabels: labels }, template } } });
  const pod = await event(`/api/v1/namespaces/${namespace}/pods`, { labelSelector: 'app=js' },
    (type, object) => object.status?.containerStatuses?.[0]?.ready);
  const name = pod.metadata.name;
  // Without a probe a pod is ready before its first line.
  let log = '';
  for (let tries = 0; !log && tries < 300; tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    log = await core.readNamespacedPodLog({ namespace, name });
  }
  assert.match(log, /^serving ledger \/data\/l\.db/);
  const run = (command) => new Promise((resolve, reject) => {
    const out = new PassThrough();
    let text = '';
    out.on('data', (chunk) => { text += chunk; });
    new k8s.Exec(config).exec(namespace, name, 'main', command, out, out, null, false,
      (status) => resolve({ status, text })).catch(reject);
  });
  const applied = await run(['/eventlab', 'ledger', 'apply', '--db', '/data/l.db', '--mode', 'atomic', '--order-id', 'o',
    '--amount', '5', '--arrival', 'a', '--workflow-uid', 'u']);
  assert.equal(applied.status.status, 'Success', JSON.stringify(applied));
  assert.match(applied.text, /applied/);
  const refused = await run(['sh']);
  assert.match(refused.status.message, /executable file not found in \$PATH/);
  await apps.deleteNamespacedDeployment({ namespace, name: 'js', propagationPolicy: 'Foreground' });
}

async function rights() {
  const authorization = config.makeApiClient(k8s.AuthorizationV1Api);
  const review = await authorization.createSelfSubjectAccessReview({
    body: { spec: { resourceAttributes: { namespace, verb: 'create', resource: 'pods' } } } });
  assert.equal(review.status.allowed, true);
  config.setCurrentContext('learner');
  const learner = config.makeApiClient(k8s.CoreV1Api);
  assert.equal(await status(learner.listNamespacedSecret({ namespace: 'kube-system' })), 403);
}

await configMaps();
await sensors();
await pods();
await rights();
console.log('the JavaScript client did its daily work');
process.exit(0);
