"""The official Python client against a running embedded cluster.

Applies, watches, patches, reads logs, runs a command, checks access and deletes. KUBECONFIG names the cluster.
"""

import threading
import time

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException
from kubernetes.stream import portforward, stream

NAMESPACE = "default"
GROUP = {"group": "argoproj.io", "version": "v1alpha1", "namespace": NAMESPACE, "plural": "sensors"}


def deployment():
    container = client.V1Container(
        name="main",
        image="eventlab:dev",
        command=["/eventlab"],
        args=["ledger", "serve", "--db", "/data/l.db", "--port", "8080"],
        ports=[client.V1ContainerPort(container_port=8080)],
        volume_mounts=[client.V1VolumeMount(name="data", mount_path="/data")],
    )
    labels = {"app": "py"}
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels),
        spec=client.V1PodSpec(
            containers=[container],
            volumes=[client.V1Volume(name="data", empty_dir=client.V1EmptyDirVolumeSource())],
        ),
    )
    spec = client.V1DeploymentSpec(
        replicas=1, selector=client.V1LabelSelector(match_labels=labels), template=template
    )
    return client.V1Deployment(metadata=client.V1ObjectMeta(name="py", labels=labels), spec=spec)


def watched(core, name):
    """Watches config maps from before the first change until the last one."""
    version = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    seen = []

    def follow():
        events = watch.Watch().stream(
            core.list_namespaced_config_map, NAMESPACE, resource_version=version, timeout_seconds=60
        )
        for event in events:
            if event["object"].metadata.name == name:
                seen.append(event["type"])
                if event["type"] == "DELETED":
                    return

    thread = threading.Thread(target=follow)
    thread.start()
    return thread, seen


def config_maps(core):
    thread, seen = watched(core, "py")
    made = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="py"), data={"a": "1"})
    core.create_namespaced_config_map(NAMESPACE, made)
    try:
        core.create_namespaced_config_map(NAMESPACE, made)
        raise AssertionError("created twice")
    except ApiException as error:
        assert (error.status, error.reason) == (409, "Conflict"), error
    patched = core.patch_namespaced_config_map("py", NAMESPACE, {"data": {"b": "2"}})
    assert patched.data == {"a": "1", "b": "2"}, patched.data
    patched.data["a"] = "3"
    assert core.replace_namespaced_config_map("py", NAMESPACE, patched).data["a"] == "3"
    try:
        core.replace_namespaced_config_map("py", NAMESPACE, patched)
        raise AssertionError("an old version replaced a new one")
    except ApiException as error:
        assert error.status == 409, error
    core.delete_namespaced_config_map("py", NAMESPACE)
    thread.join(60)
    assert seen == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"], seen


def sensors(custom):
    body = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Sensor",
        "metadata": {"name": "py"},
        "spec": {"dependencies": [], "triggers": []},
    }
    # Created by it, so the answer is 201, of which this client keeps nothing.
    custom.patch_namespaced_custom_object(
        **GROUP, name="py", body=body, field_manager="py", force=True,
        _content_type="application/apply-patch+yaml",
    )
    applied = custom.get_namespaced_custom_object(**GROUP, name="py")
    assert applied["metadata"]["generation"] == 1, applied
    merged = custom.patch_namespaced_custom_object(
        **GROUP, name="py", body={"spec": {"x": 1}}, _content_type="application/merge-patch+json"
    )
    assert merged["spec"]["x"] == 1 and merged["metadata"]["generation"] == 2, merged
    assert len(custom.list_namespaced_custom_object(**GROUP)["items"]) == 1
    custom.delete_namespaced_custom_object(**GROUP, name="py")


def pods(core, apps):
    apps.create_namespaced_deployment(NAMESPACE, deployment())
    events = watch.Watch().stream(
        core.list_namespaced_pod, NAMESPACE, label_selector="app=py", timeout_seconds=60
    )
    for event in events:
        status = event["object"].status
        if status.container_statuses and status.container_statuses[0].ready:
            pod = event["object"].metadata.name
            break
    else:
        raise AssertionError("no pod became ready")
    # Without a probe a pod is ready before its first line.
    for _ in range(300):
        log = core.read_namespaced_pod_log(pod, NAMESPACE, tail_lines=1)
        if log:
            break
        time.sleep(0.1)
    assert log.startswith("serving ledger /data/l.db"), log
    command = "/eventlab ledger apply --db /data/l.db --mode atomic --order-id o --amount 5 --arrival a --workflow-uid u"
    said = stream(
        core.connect_get_namespaced_pod_exec, pod, NAMESPACE, command=command.split(), stdout=True, stderr=True
    )
    assert "applied" in said, said
    refused = stream(
        core.connect_get_namespaced_pod_exec, pod, NAMESPACE, command=["sh"], stdout=True, stderr=True,
        _preload_content=False,
    )
    refused.run_forever(timeout=30)
    assert "executable file not found" in refused.read_channel(3), "a shell was found"
    forward = portforward(core.connect_get_namespaced_pod_portforward, pod, NAMESPACE, ports="8080")
    socket = forward.socket(8080)
    socket.settimeout(30)
    socket.sendall(b"GET /orders HTTP/1.1\r\nHost: py\r\nConnection: close\r\n\r\n")
    assert socket.recv(12) == b"HTTP/1.1 200"
    socket.close()
    scaled = apps.patch_namespaced_deployment_scale("py", NAMESPACE, {"spec": {"replicas": 0}})
    # A zero is left out of a Scale.
    assert not scaled.spec.replicas
    apps.delete_namespaced_deployment("py", NAMESPACE, propagation_policy="Foreground")


def rights(authorization):
    def allowed(verb, resource, group=""):
        attributes = client.V1ResourceAttributes(namespace=NAMESPACE, verb=verb, resource=resource, group=group)
        review = client.V1SelfSubjectAccessReview(
            spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes)
        )
        return authorization.create_self_subject_access_review(review).status.allowed

    assert allowed("create", "pods") and allowed("delete", "sensors", "argoproj.io")


def main():
    config.load_kube_config(context="admin")
    core = client.CoreV1Api()
    assert client.VersionApi().get_code().git_version == "v1.36.2+eventlab"
    config_maps(core)
    sensors(client.CustomObjectsApi())
    pods(core, client.AppsV1Api())
    rights(client.AuthorizationV1Api())
    learner = client.CoreV1Api(config.new_client_from_config(context="learner"))
    try:
        learner.list_namespaced_secret("kube-system")
        raise AssertionError("the learner read secrets of kube-system")
    except ApiException as error:
        assert error.status == 403 and 'User \\"learner\\" cannot list resource' in error.body, error.body
    print("the Python client did its daily work")


main()
