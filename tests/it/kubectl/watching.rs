//! Watches and waits, with lists that stream as newer clients ask for them.

use super::Kubectl;

pub fn all(k: &mut Kubectl) {
    watches(k);
    waits(k);
}

fn watches(k: &mut Kubectl) {
    k.ok("create configmap there", "created");
    let watch = k.follow("get cm -w");
    watch.until(k, "there ");
    let kinds = k.follow("get cm -w --output-watch-events");
    kinds.until(k, "ADDED|there ");
    let named = k.follow("get cm there -w -o name");
    named.until(k, "configmap/there");
    let only = k.follow("get cm --watch-only -o 'jsonpath={.metadata.name}:{.data.x}{\"\\n\"}'");
    let everywhere = k.follow("get cm -A -w --output-watch-events");
    everywhere.until(k, "ADDED|default|there ");
    only.until_repeated(k, "annotate cm there turn={n} --overwrite", "there:");
    k.ok("create configmap late", "created");
    watch.until(k, "late |0 ");
    kinds.until(k, "ADDED|late");
    k.ok(r#"patch cm late -p '{"data":{"x":"1"}}'"#, "patched");
    watch.until(k, "late |1 ");
    kinds.until(k, "MODIFIED|late|1");
    only.until(k, "late:1");
    // kubectl drops the first event of a watch on one object: what happened since it read the object is not shown.
    named.until_repeated(
        k,
        "label cm there seen=yes-{n} --overwrite",
        "configmap/there",
    );
    k.ok("delete cm late there", "deleted");
    kinds.until(k, "DELETED|late");
    everywhere.until(k, "DELETED|default|there");
}

fn waits(k: &mut Kubectl) {
    k.ok("create configmap w --from-literal=a=9", "created");
    let there = "wait --for=jsonpath={.data.a}=9 cm/w --timeout=60s";
    k.ok(there, "configmap/w condition met");
    k.fails(
        "wait --for=jsonpath={.data.a}=8 cm/w --timeout=1s",
        "timed out waiting for the condition on configmaps/w",
    );
    k.fails(
        "wait --for=condition=Ready cm/ghost --timeout=1s",
        "NotFound",
    );
    let change = k.follow("wait --for=jsonpath={.data.a}=10 cm/w --timeout=60s");
    // What is gone when it is looked for is told of in no word: it must be seen before.
    let gone = k.follow("wait --for=delete cm/w --timeout=60s -v=6");
    gone.until(k, "/configmaps/w|200 OK");
    k.ok(r#"patch cm w -p '{"data":{"a":"10"}}'"#, "patched");
    change.until(k, "condition met");
    k.ok("delete cm w", "deleted");
    gone.until(k, "condition met");
    k.ok("wait --for=delete cm/w --timeout=60s", "");
    if k.minor >= 31 {
        let made = k.follow("wait --for=create cm/soon --timeout=60s");
        k.ok("create configmap soon", "created");
        made.until(k, "condition met");
        k.ok("delete cm soon", "deleted");
    }
}
