//! What reaches into pods, and what says that it cannot.

use std::io::{Read as _, Write as _};

use super::Kubectl;
use super::workloads::WEB;

pub fn all(k: &mut Kubectl) {
    k.file("web.yaml", &WEB.replace("replicas: 2", "replicas: 1"));
    k.ok("apply -f web.yaml", "deployment.apps/web created");
    k.ok(
        "rollout status deploy/web --timeout=60s",
        "successfully rolled out",
    );
    commands_run(k);
    containers_are_attached_to(k);
    services_are_forwarded(k);
    what_is_not_available(k);
}

fn commands_run(k: &mut Kubectl) {
    k.ok(
        "exec deploy/web -- /eventlab ledger apply --db /data/l.db --mode atomic --order-id o --amount 5 --arrival a --workflow-uid u",
        "applied",
    );
    k.ok(
        "exec deploy/web -c main -- /eventlab ledger show --db /data/l.db",
        "o ",
    );
    k.fails(
        "exec deploy/web -- /eventlab ledger show --db /data/ghost.db",
        "there is no ledger at /data/ghost.db|command terminated with exit code 1",
    );
    k.fails(
        "exec deploy/web -- sh",
        "exec: \"sh\": executable file not found in $PATH",
    );
    k.fails(
        "exec deploy/web -it -- sh",
        "exec: \"sh\": executable file not found in $PATH",
    );
    k.fails("exec deploy/web -- /eventlab run", "does not run in a pod");
    k.fails(
        "exec deploy/web -c ghost -- /eventlab ledger",
        "container ghost is not valid",
    );
    k.fails("exec ghost -- /eventlab ledger", "pods \"ghost\" not found");
}

/// An attached client hears what comes from now on, until the container ends.
fn containers_are_attached_to(k: &mut Kubectl) {
    k.ok(
        "run held --image=eventlab:dev --restart=Never -- ledger serve --db /tmp/l.db",
        "pod/held created",
    );
    k.ok(
        "wait --for=condition=Ready pod/held --timeout=60s",
        "condition met",
    );
    // The client alone says nothing when it is there; its requests do.
    let attached = k.follow("attach held -v=6");
    attached.until(k, "/pods/held/attach?|101 Switching Protocols");
    k.ok("delete pod held", "deleted");
    let (success, said) = attached.end();
    if !success || said.iter().any(|line| line.starts_with("error")) {
        k.report(format!("attach: {success} {said:?}"));
    }
    k.ok(
        "run shown --image=eventlab:dev --restart=Never --attach --rm --pod-running-timeout=60s -- ledger --help",
        "pod \"shown\" deleted",
    );
    k.ok(
        "run over --image=eventlab:dev --restart=Never -- ledger --help",
        "pod/over created",
    );
    k.ok(
        "wait --for=jsonpath={.status.phase}=Succeeded pod/over --timeout=60s",
        "condition met",
    );
    k.fails("attach over", "completed pod");
    k.ok("delete pod over", "deleted");
    k.fails("attach ghost", "pods \"ghost\" not found");
}

/// Services and pods are reached through a port of its own choice on this machine.
fn services_are_forwarded(k: &mut Kubectl) {
    for target in ["svc/web :80", "deploy/web :8080", "deploy/web :http"] {
        let forward = k.follow(&format!("port-forward {target}"));
        let line = forward.until(k, "Forwarding from 127.0.0.1:");
        let port = line
            .strip_prefix("Forwarding from 127.0.0.1:")
            .and_then(|rest| rest.split(' ').next())
            .and_then(|port| port.parse::<u16>().ok());
        let Some(port) = port else { continue };
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let request = b"GET /orders HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n";
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        if !(answer.starts_with("HTTP/1.1 200") && answer.contains("\"o\"")) {
            k.report(format!("port-forward {target} answered {answer:?}"));
        }
    }
    k.fails(
        "port-forward svc/web :81",
        "does not have a service port 81",
    );
    k.fails("port-forward svc/ghost :80", "services \"ghost\" not found");
    // The API through the client's own proxy.
    let proxy = k.follow("proxy --port=0");
    let line = proxy.until(k, "Starting to serve on 127.0.0.1:");
    if let Some(port) = line
        .rsplit(':')
        .next()
        .and_then(|port| port.parse::<u16>().ok())
    {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let request = b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        if !answer.contains("v1.36.2+eventlab") {
            k.report(format!("the proxy answered {answer:?}"));
        }
    }
}

fn what_is_not_available(k: &mut Kubectl) {
    let (_, pod) = k.text("get pods -l app=web -o jsonpath={.items[0].metadata.name}");
    k.file("copied", "x");
    for line in [
        format!("cp copied {pod}:/tmp/x"),
        format!("cp {pod}:/data/l.db l.db"),
    ] {
        k.fails(&line, "exec: \"tar\": executable file not found in $PATH");
    }
    k.fails("top pods", "Metrics API not available");
    k.fails("top nodes", "Metrics API not available");
    k.fails(
        "autoscale deploy web --max=3",
        "the server could not find the requested resource",
    );
    k.fails(
        &format!("debug {pod} --image=busybox"),
        "eventlab: no container can be added to a pod here",
    );
    k.fails(
        "certificate approve x",
        "the server doesn't have a resource type",
    );
    k.ok(
        "delete -f web.yaml",
        "deployment.apps \"web\" deleted|service \"web\" deleted",
    );
}
