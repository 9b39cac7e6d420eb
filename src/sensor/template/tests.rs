//! What the golden files do not hold: limits, blocks, templates at random.

use proptest::prelude::*;
use serde_json::json;

use super::{Template, TemplateError};

fn render(source: &str) -> Result<String, TemplateError> {
    Template::parse(source)?
        .render(&json!({"n": 5, "s": "text", "l": [1, 2, 3], "o": {"b": 1, "a": null}, "t": true}))
}

fn output(source: &str) -> String {
    render(source).unwrap()
}

#[test]
fn blocks_and_conditions_nest() {
    for (source, want) in [
        ("{{if false}}a{{else if .Input.t}}b{{else}}c{{end}}", "b"),
        (
            "{{with .Input.nope}}a{{else with .Input.s}}{{.}}{{end}}",
            "text",
        ),
        (
            "{{range $i, $x := .Input.l}}{{if eq $i 1}}{{continue}}{{end}}{{$x}}{{else}}none{{end}}",
            "13",
        ),
        ("{{range .Input.nope}}a{{else}}none{{end}}", "none"),
        (
            "{{block \"b\" .Input.s}}[{{.}}]{{end}}{{define \"c\"}}{{$}}{{end}}{{template \"c\" 1}}",
            "[text]1",
        ),
        ("a {{- /* c */ -}} b{{/* d */}}c", "abc"),
        (
            "{{$x := 1}}{{if true}}{{$x = 2}}{{$y := 3}}{{$y}}{{end}}{{$x}}",
            "32",
        ),
        (
            "{{(index .Input.l 1)}}{{.Input.o.a}}{{len .Input.o}}",
            "2<no value>2",
        ),
        (
            "{{printf \"%v %d %s\" .Input.l 3 `raw`}}\n{{- 1 -}}\n",
            "[1 2 3] 3 raw1",
        ),
    ] {
        assert_eq!(output(source), want, "{source}");
    }
}

#[test]
fn functions_follow_sprig() {
    for (source, want) in [
        (
            "{{substr 1 3 \"hello\"}}{{substr -1 2 \"hello\"}}{{substr 3 -1 \"hello\"}}",
            "elhelo",
        ),
        (
            "{{snakecase \"FooBarHTTPServer\"}} {{kebabcase \"Foo Bar\"}} {{camelcase \"foo-bar baz\"}}",
            "foo_bar_http_server foo-bar FooBarBaz",
        ),
        (
            "{{swapcase \"aBc\"}} {{initials \"first second\"}} {{trimAll \"$\" \"$5$\"}}",
            "AbC fs 5",
        ),
        (
            "{{seq 3}} {{seq 2 5}} {{seq 0 2 6}} {{until 3}}",
            "1 2 3 2 3 4 5 0 2 4 6 [0 1 2]",
        ),
        (
            "{{toJson (set (dict \"a\" \"<\") \"b\" nil)}} {{toRawJson (list \"<\")}}",
            r#"{"a":"\u003c","b":null} ["<"]"#,
        ),
        (
            "{{omit .Input.o \"a\"}} {{values (pick .Input.o \"b\")}} {{has 2.0 .Input.l}}",
            "map[b:1] [1] true",
        ),
        (
            "{{dig \"x\" \"y\" \"none\" (dict \"x\" (dict \"y\" 1))}} {{dig \"q\" \"none\" .Input.o}}",
            "1 none",
        ),
        (
            "{{regexReplaceAll \"(a)(?P<n>b)\" \"abab\" \"${n}$1-\"}} {{regexFindAll \"a.\" \"abac\" -1}}",
            "ba-ba- [ab ac]",
        ),
        (
            "{{regexSplit \",\" \"a,b,c\" 2}} {{regexQuoteMeta \"a.b\"}}",
            "[a b,c] a\\.b",
        ),
        (
            "{{clean \"/a/../b/./c/\"}} {{dir \"a/b/c\"}} {{base \"/\"}} {{ext \"a.b.c\"}}",
            "/b/c a/b / .c",
        ),
        (
            "{{date \"2006-01-02 15:04\" 86400}} {{(toDate \"2006-01-02\" \"2024-02-03\") | unixEpoch}}",
            "1970-01-02 00:00 1706918400",
        ),
        ("{{dateInZone \"15:04 MST\" 0 \"Asia/Tokyo\"}}", "09:00 JST"),
        (
            "{{int \"0x1F\"}} {{int \"12abc\"}} {{int64 \"08\"}} {{float64 \"1.5\"}} {{divf 1 2.0}} {{round 2.5 0}}",
            "31 0 8 1.5 0.5 3",
        ),
        (
            "{{semverCompare \"^1.2\" \"1.9.0\"}} {{semverCompare \"~1.2.0\" \"1.3.0\"}}",
            "true false",
        ),
        (
            "{{b64dec \"!\"}} {{chunk 2 .Input.l}} {{reverse .Input.l}} {{initial .Input.l}}",
            "illegal base64 data at input byte 0 [[1 2] [3]] [3 2 1] [1 2]",
        ),
        (
            "{{merge (dict \"a\" 1 \"c\" (dict \"x\" 1)) (dict \"a\" 2 \"b\" 3 \"c\" (dict \"y\" 2))}}",
            "map[a:1 b:3 c:map[x:1 y:2]]",
        ),
    ] {
        assert_eq!(output(source), want, "{source}");
    }
}

#[test]
fn mistakes_have_gos_texts() {
    let error = |source: &str| render(source).unwrap_err().to_string();
    assert_eq!(
        error("a\n{{ .Input.s.x }}"),
        "template: param:2:9: executing \"param\" at <.Input.s.x>: can't evaluate field x in type interface {}"
    );
    assert_eq!(
        error("{{ upper 1 }}"),
        "template: param:1:3: executing \"param\" at <upper 1>: wrong type for value; expected string; got int"
    );
    assert_eq!(
        error("{{ upper }}"),
        "template: param:1:3: executing \"param\" at <upper>: wrong number of args for upper: want 1 got 0"
    );
    assert_eq!(
        error("{{ regexFind \"(\" \"a\" }}"),
        "template: param:1:3: executing \"param\" at <regexFind \"(\" \"a\">: error calling regexFind: error parsing regexp: missing closing ): `(`"
    );
    assert_eq!(
        error("\n{{ env \"HOME\" }}"),
        "template: param:2: function \"env\" not defined"
    );
    for source in [
        "{{if true}}",
        "{{else}}",
        "{{break}}",
        "{{$x}}",
        "{{.a.}}",
        "{{(1}}",
        "{{1)}}",
        "{{\"a}}",
        "{{1 | 2}}",
        "{{template}}",
        "{{define \"a\"}}",
        "{{|}}",
        "{{.Input | }}",
        "{{'ab'}}",
        "{{1x}}",
    ] {
        assert!(
            matches!(render(source), Err(TemplateError::Parse(_))),
            "{source}"
        );
    }
}

#[test]
fn rendering_is_bounded() {
    for source in [
        "{{range until 100000}}{{range until 100000}}{{end}}{{end}}",
        "{{define \"a\"}}{{template \"a\"}}{{end}}{{template \"a\"}}",
        "{{define \"a\"}}{{template \"a\"}}{{template \"a\"}}{{end}}{{template \"a\"}}",
        "{{repeat 1000000000 \"x\"}}",
        "{{until 1000000000}}",
        "{{$l := list 1}}{{range until 1000}}{{$l = list $l $l}}{{end}}{{$l}}",
        "{{$l := list 1}}{{range until 1000}}{{$l = concat $l $l}}{{end}}{{len $l}}",
        "{{$s := \"x\"}}{{range until 1000}}{{$s = printf \"%s%s\" $s $s}}{{end}}",
        "{{$s := repeat 1000000 \"x\"}}{{range until 100000}}{{$s}}{{end}}",
        "{{printf \"%999999d%999999d%999999d%999999d%999999d\" 1 2 3 4 5}}",
        "{{indent 1000000 (repeat 1000 \"\\n\")}}",
        "{{replace \"\" (repeat 10000 \"x\") (repeat 10000 \"y\")}}",
        "{{range $i := until 100000}}{{regexMatch (printf \"a{%d}\" $i) \"a\"}}{{end}}",
        "{{range until 100000}}{{range until 1000}}{{regexMatch \"a*b\" \"aaa\"}}{{end}}{{end}}",
        "{{uniq (until 100000)}}",
    ] {
        assert!(
            matches!(render(source), Err(TemplateError::Execute(_))),
            "{source}"
        );
    }
    for source in [
        "{{if true}}".repeat(5000),
        format!("{{{{{}1{}}}}}", "(".repeat(20_000), ")".repeat(20_000)),
        "{{if true}}{{else if true}}".repeat(2000),
        "x".repeat(100_000),
    ] {
        assert!(matches!(render(&source), Err(TemplateError::Parse(_))));
    }
}

proptest! {
    #[test]
    fn no_text_panics(source in any::<String>()) {
        let _ = render(&source);
    }

    #[test]
    fn no_template_panics(parts in proptest::collection::vec(proptest::sample::select(vec![
        "{{", "}}", "{{-", "-}}", " ", "if", "else", "end", "range", "with", "define \"a\"", "template \"a\"", "block \"b\"", "break",
        "$x", ":=", "=", ",", "|", "(", ")", ".", ".Input", ".s", ".l", "1", "2.5", "\"t\"", "`r`", "'c'", "true", "nil", "upper", "printf",
        "index", "len", "and", "list", "dict", "trunc", "substr", "/*", "*/", "text",
    ]), 0..20)) {
        let _ = render(&parts.concat());
        let _ = render(&format!("{{{{ {} }}}}", parts.join(" ")));
    }

    #[test]
    fn no_function_panics(
        name in proptest::sample::select(super::functions::names()),
        arguments in proptest::collection::vec(proptest::sample::select(vec![
            "1", "-1", "0", "9223372036854775807", "2.5", "\"\"", "\"text é\"", "\"(\"", "nil", "true", ".Input", ".Input.l", ".Input.o", "now",
        ]), 0..5),
    ) {
        let _ = render(&format!("{{{{ {name} {} }}}}", arguments.join(" ")));
    }
}
