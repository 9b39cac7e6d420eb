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
            "31 0 0 1.5 0.5 3",
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
fn whole_numbers_of_two_widths_stay_apart() {
    for (source, want) in [
        (
            "{{typeOf (add 1 2)}} {{typeOf (len \"a\")}} {{typeOf (int64 1)}}",
            "int64 int int64",
        ),
        (
            "{{has (int64 1) (list 1)}} {{eq (int64 1) 1}} {{uniq (list 1 (int64 1))}}",
            "false true [1 1]",
        ),
        (
            "{{range $e := int64 3}}{{$e}}{{end}} {{slice (list 1 2 3) (add 0 1)}}",
            "012 [2 3]",
        ),
        (
            "{{duration (int64 61)}} {{duration 61}} {{duration \"61\"}}",
            "1m1s 0s 1m1s",
        ),
        (
            "{{durationRound (int64 90000000000)}} {{durationRound \"2400h\"}}",
            "1m 3mo",
        ),
    ] {
        assert_eq!(output(source), want, "{source}");
    }
    for source in [
        "{{until (int64 2)}}",
        "{{trunc (add 1 1) \"abc\"}}",
        "{{range $i, $e := 2}}x{{end}}",
    ] {
        assert!(render(source).is_err(), "{source}");
    }
}

#[test]
fn lists_and_objects_have_the_types_that_go_declares() {
    for (source, want) in [
        (
            "{{typeOf (list 1)}} {{typeOf (splitList \",\" \"a,b\")}} {{typeOf (until 2)}} {{typeOf (chunk 1 (list 1))}}",
            "[]interface {} []string []int [][]interface {}",
        ),
        (
            "{{typeOf (keys (dict \"a\" 1))}} {{typeOf (sortAlpha (list \"a\"))}} {{typeOf (regexFindAll \"a\" \"a\" -1)}} {{typeOf (slice (until 3) 1)}}",
            "[]string []string []string []int",
        ),
        (
            "{{typeOf (reverse (splitList \",\" \"a,b\"))}} {{typeOf (dict)}} {{typeOf (split \",\" \"a\")}} {{kindOf (splitList \",\" \"\")}}",
            "[]interface {} map[string]interface {} map[string]string slice",
        ),
        (
            "{{deepEqual (splitList \",\" \"a\") (list \"a\")}} {{deepEqual (splitList \",\" \"a\") (sortAlpha (list \"a\"))}}",
            "false true",
        ),
        (
            "{{(split \",\" \"a,b\")._1}} {{index (split \",\" \"a,b\") \"_0\"}}",
            "b a",
        ),
    ] {
        assert_eq!(output(source), want, "{source}");
    }
    let error = render("{{get (split \",\" \"a\") \"_0\"}}").unwrap_err();
    let said = "wrong type for value; expected map[string]interface {}; got map[string]string";
    assert!(error.to_string().contains(said), "{error}");
}

#[test]
fn decoded_bytes_that_are_no_text_are_refused() {
    assert_eq!(output("{{b64dec \"w6k=\"}}"), "é");
    for source in ["{{b64dec \"/w==\"}}", "{{b32dec \"74======\"}}"] {
        let error = render(source).unwrap_err();
        assert!(error.to_string().contains("not UTF-8"), "{error}");
    }
}

#[test]
fn decimals_are_added_as_decimals() {
    for (source, want) in [
        (
            "{{addf 0.1 0.2}} {{subf 0.3 0.1}} {{mulf 1.1 1.1}}",
            "0.3 0.2 1.21",
        ),
        (
            "{{divf 7 3}} {{divf 1 8}} {{add1f 0.2}}",
            "2.3333333333333335 0.125 1.2",
        ),
        (
            "{{divf -7 3}} {{divf 2 3}} {{addf 1e300 -1e300}}",
            "-2.3333333333333335 0.6666666666666667 0",
        ),
    ] {
        assert_eq!(output(source), want, "{source}");
    }
    assert!(render("{{divf 1 0}}").is_err());
}

#[test]
fn nothing_is_missing_or_null() {
    let render = |source: &str| {
        let template = Template::parse(source).unwrap();
        template.render_json(br#"{"nul":null,"a":1,"dup":1,"dup":2}"#)
    };
    for (source, want) in [
        // Below what is missing there is nothing, and nothing is an empty object to who wants one.
        (
            "{{default \"d\" .Input.nope.x.y}} {{hasKey .Input.nope \"a\"}} {{keys .Input.nope | len}}",
            "d false 0",
        ),
        (
            "{{merge (dict \"a\" 1) .Input.nope}} {{default \"d\" .Input.nul}}",
            "map[a:1] d",
        ),
        (
            "{{.Input.nope.x | html}} {{list .Input.nul | sortAlpha}}",
            "&lt;no value&gt; []",
        ),
        // Of two members with one name the first counts.
        ("{{.Input.dup}}", "1"),
    ] {
        assert_eq!(render(source).unwrap(), want, "{source}");
    }
    for source in [
        "{{default \"d\" .Input.nul.x}}",
        "{{set .Input.nope \"a\" 1}}",
        "{{deepCopy .Input.nul}}",
    ] {
        assert!(render(source).is_err(), "{source}");
    }
}

#[test]
fn every_element_is_printed_by_the_verb() {
    for (source, want) in [
        (
            "{{printf \"%d %q %x\" (list 1 \"a\") (list \"b\") (dict \"k\" \"v\")}}",
            "[1 %!d(string=a)] [\"b\"] map[6b:76]",
        ),
        (
            "{{printf \"%5v|%-3v|%t\" (list 1 2) (dict \"a\" 1) (list true)}}",
            "[    1     2]|map[a  :1  ]|[true]",
        ),
        ("{{printf \"%s\" (list nil)}}", "[<nil>]"),
    ] {
        assert_eq!(output(source), want, "{source}");
    }
    assert!(render("{{printf \"%999999v\" (until 9999)}}").is_err());
}

#[test]
fn texts_are_wrapped_and_encoded_as_in_go() {
    for (source, want) in [
        (
            "{{wrapWith 4 \"|\" \"aaa bb cccccc d\"}}",
            "aaa|bb|cccc|cc d",
        ),
        ("{{wrap 5 \" x y zzzzzzzz a\"}}", "x y\nzzzzzzzz\na"),
        (
            "{{b32enc \"order\"}} {{b32enc \"a\" | b32dec}} {{b32dec \"a\"}}",
            "N5ZGIZLS a illegal base32 data at input byte 0",
        ),
        (
            "{{sha1sum \"a\"}}",
            "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8",
        ),
        (
            "{{abbrevboth 5 10 \"1234 5678 9123\"}} {{abbrev 5 \"order\"}}",
            "...5678... order",
        ),
        ("{{mustFirst (list 1 2)}} {{1 |}}", "1 1"),
        (
            "{{len (randAlphaNum 5)}} {{len uuidv4}} {{randInt 3 4}}",
            "5 36 3",
        ),
    ] {
        assert_eq!(output(source), want, "{source}");
    }
}

/// Answers of Go 1.26 and sprig 3.3.0: of arguments that do not fit Go speaks at the argument, before it calls anything.
#[test]
fn arguments_that_do_not_fit_are_told_as_go_tells_them() {
    for (source, place, text) in [
        (
            "upper nil",
            "9: executing \"param\" at <nil>",
            "cannot assign nil to string",
        ),
        (
            "upper .Input.nope",
            "15: executing \"param\" at <.Input.nope>",
            "invalid value; expected string",
        ),
        (
            "upper .Input.n",
            "15: executing \"param\" at <.Input.n>",
            "wrong type for value; expected string; got float64",
        ),
        (
            "repeat 2.5 \"b\"",
            "10: executing \"param\" at <2.5>",
            "expected integer; found 2.5",
        ),
        (
            "ternary 1 2 3",
            "15: executing \"param\" at <3>",
            "expected bool; found 3",
        ),
        (
            "hasKey \"x\" \"a\"",
            "10: executing \"param\" at <\"x\">",
            "can't handle \"x\" for arg of type map[string]interface {}",
        ),
        (
            "toJson 1 2",
            "3: executing \"param\" at <toJson>",
            "wrong number of args for toJson: want 1 got 2",
        ),
        (
            "index",
            "3: executing \"param\" at <index>",
            "wrong number of args for index: want at least 1 got 0",
        ),
        (
            "and",
            "3: executing \"param\" at <and>",
            "wrong number of args for and: want at least 1 got 0",
        ),
        (
            "index (dict) 1",
            "3: executing \"param\" at <index (dict) 1>",
            "error calling index: value has type int; should be string",
        ),
        (
            "len nil",
            "3: executing \"param\" at <len nil>",
            "error calling len: reflect: call of reflect.Value.Type on zero Value",
        ),
        (
            "len .Input.o.a",
            "3: executing \"param\" at <len .Input.o.a>",
            "error calling len: len of nil pointer",
        ),
        (
            "lt nil 1",
            "3: executing \"param\" at <lt nil 1>",
            "error calling lt: invalid type for comparison",
        ),
        (
            "lt 1 \"a\"",
            "3: executing \"param\" at <lt 1 \"a\">",
            "error calling lt: incompatible types for comparison: int and string",
        ),
        (
            "index (dict) nil",
            "3: executing \"param\" at <index (dict) nil>",
            "error calling index: value is nil; should be of type string",
        ),
        (
            "fail \"wrong number\"",
            "3: executing \"param\" at <fail \"wrong number\">",
            "error calling fail: wrong number",
        ),
        (
            "fail \"invalid value; x\"",
            "3: executing \"param\" at <fail \"invalid value; x\">",
            "error calling fail: invalid value; x",
        ),
    ] {
        let error = render(&format!("{{{{ {source} }}}}")).unwrap_err();
        let wanted = format!("template: param:1:{place}: {text}");
        assert_eq!(error, TemplateError::Execute(wanted), "{source}");
    }
}

/// Answers of Go 1.26: JSON that is none, and what JSON does not have.
#[test]
fn json_fails_with_gos_words() {
    for (text, words) in [
        ("{", "unexpected end of JSON input"),
        ("", "unexpected end of JSON input"),
        ("x", "invalid character 'x' looking for beginning of value"),
        (
            "{x",
            "invalid character 'x' looking for beginning of object key string",
        ),
        (
            "{'a':1}",
            "invalid character '\\'' looking for beginning of object key string",
        ),
        ("{\"a\" 1}", "invalid character '1' after object key"),
        (
            "{\"a\":1 x}",
            "invalid character 'x' after object key:value pair",
        ),
        (
            "{\"a\":1,}",
            "invalid character '}' looking for beginning of object key string",
        ),
        (
            "{\"a\":[{}, [],}]",
            "invalid character '}' looking for beginning of value",
        ),
        ("{\"a\":1}}", "invalid character '}' after top-level value"),
        ("[1 2]", "invalid character '2' after array element"),
        (
            "tru",
            "invalid character ' ' in literal true (expecting 'e')",
        ),
        (
            "faXse",
            "invalid character 'X' in literal false (expecting 'l')",
        ),
        ("-", "invalid character ' ' in numeric literal"),
        ("01", "invalid character '1' after top-level value"),
        (
            "1.x",
            "invalid character 'x' after decimal point in numeric literal",
        ),
        (
            "1e+",
            "invalid character ' ' in exponent of numeric literal",
        ),
        ("\"abc", "unexpected end of JSON input"),
        ("\"a\\x\"", "invalid character 'x' in string escape code"),
        (
            "\"a\\u12\"",
            "invalid character '\"' in \\u hexadecimal character escape",
        ),
        ("\"a\nb\"", "invalid character '\\n' in string literal"),
        (
            "\u{e9}",
            "invalid character '\u{c3}' looking for beginning of value",
        ),
        (
            "[1,1e999,-1e999]",
            "json: cannot unmarshal number 1e999 into Go value of type float64",
        ),
    ] {
        let template = Template::parse("{{ mustFromJson .Input }}").unwrap();
        let error = template.render_text(text).unwrap_err().to_string();
        let wanted = format!(
            "template: param:1:3: executing \"param\" at <mustFromJson .Input>: error calling mustFromJson: {words}"
        );
        assert_eq!(error, wanted, "{text}");
    }
    for (text, wanted) in [
        ("[1, 1e999, 2]", "[1 <nil> 2]"),
        ("1e999", "<no value>"),
        ("[1,2", "<no value>"),
        ("{\"a\":1,\"a\":2}", "map[a:2]"),
        (
            "\"\\ud800\\ud83d\\ude00\\udc00x\"",
            "\u{fffd}\u{1f600}\u{fffd}x",
        ),
        (" [ { } , [ ] , { \"a\" : [ ] } ] ", "[map[] [] map[a:[]]]"),
    ] {
        let template = Template::parse("{{ fromJson .Input }}").unwrap();
        assert_eq!(template.render_text(text).as_deref(), Ok(wanted), "{text}");
    }
    let infinite =
        |function: &str| render(&format!("{{{{ {function} (list (float64 \"inf\")) }}}}"));
    assert_eq!(infinite("toJson").as_deref(), Ok(""));
    assert_eq!(infinite("toPrettyJson").as_deref(), Ok(""));
    for function in [
        "mustToJson",
        "toRawJson",
        "mustToRawJson",
        "mustToPrettyJson",
    ] {
        let error = infinite(function).unwrap_err().to_string();
        let words = format!("error calling {function}: json: unsupported value: +Inf");
        assert!(error.ends_with(&words), "{error}");
    }
}

proptest! {
    /// Whether a text is JSON, the words of Go's decoder and the rest of this program agree.
    #[test]
    fn json_is_json_in_any_words(text in "[\\[\\]{}:, \"a\\\\u0-9eE.+tfn-]{0,12}") {
        let template = Template::parse("{{ mustFromJson .Input }}").unwrap();
        let read = template.render_text(&text);
        let valid = crate::sensor::json::is_valid(text.as_bytes());
        let beyond = matches!(&read, Err(error) if error.to_string().contains("cannot unmarshal number"));
        prop_assert!(read.is_ok() == (valid && !beyond), "{text:?}: {read:?}");
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
        "template: param:1:9: executing \"param\" at <1>: expected string; found 1"
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
        error("\n{{ nope }}"),
        "template: param:2: function \"nope\" not defined"
    );
    for name in ["env", "genCA", "urlParse"] {
        let said = error(&format!("{{{{ {name} \"HOME\" }}}}"));
        assert!(
            said.starts_with("eventlab: ") && said.contains(name),
            "{said}"
        );
    }
    for (number, source) in [
        ("2i", "{{ 2i }}"),
        ("-1.5e3i", "{{ printf \"%v\" -1.5e3i }}"),
        ("1+2i", "{{ 1+2i }}"),
    ] {
        let said = error(source);
        assert!(
            said.starts_with("eventlab: ") && said.contains(number),
            "{said}"
        );
    }
    for source in ["{{ i }}", "{{ 1+2 }}", "{{ 0xi }}", "{{ 1+i }}"] {
        assert!(!error(source).starts_with("eventlab: "), "{source}");
    }
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
fn a_pattern_that_quotes_this_program_is_only_a_pattern() {
    for pattern in ["(eventlab: ", "(the template takes too many steps", "a)"] {
        let source = format!("{{{{regexMatch {pattern:?} \"a\"}}}}");
        assert_eq!(output(&source), "false", "{pattern}");
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
        "{{$d := dict}}{{$_ := set $d \"a\" (list $d)}}{{$d}}",
        "{{$d := dict \"a\" (dict)}}{{$_ := merge $d.a $d}}{{$d}}",
        "{{$d := dict}}{{$r := $d}}{{range until 15}}{{$r = dict \"x\" $r \"y\" $r}}{{end}}{{range until 1000}}{{$_ := set $d (print .) (repeat 1000 \"x\")}}{{end}}{{$r}}",
        "{{$d := dict}}{{$r := $d}}{{range until 50000}}{{$n := dict}}{{$_ := set $d \"x\" $n}}{{$d = $n}}{{end}}{{$r}}",
        "{{$d := dict}}{{range until 100000}}{{$_ := set $d (print .) (repeat 1000 \"x\")}}{{end}}",
        "{{$d := dict}}{{range until 20000}}{{$_ := set $d (print .) 1}}{{end}}{{range until 100000}}{{range $d}}{{$_ := set $d \"x\" 1}}{{break}}{{end}}{{end}}",
        "{{$d := dict}}{{range until 20000}}{{$_ := set $d (print .) 1}}{{end}}{{range until 100000}}{{range $d}}{{$_ := unset $d \"x\"}}{{break}}{{end}}{{end}}",
    ] {
        let stopped = own_bound(render(source));
        assert!(stopped, "{source}");
    }
    let chain = "{{$d := dict}}{{$r := $d}}{{range until 50000}}{{$n := dict}}{{$_ := set $d \"x\" $n}}{{$d = $n}}{{end}}{{hasKey $r \"x\"}}";
    assert_eq!(render(chain).unwrap(), "true");
    for source in [
        "{{if true}}".repeat(5000),
        format!("{{{{{}1{}}}}}", "(".repeat(20_000), ")".repeat(20_000)),
        "{{if true}}{{else if true}}".repeat(2000),
        "x".repeat(100_000),
    ] {
        assert!(own_bound(render(&source)));
    }
    let deep = format!("{}1{}", "[".repeat(120), "]".repeat(120));
    let template = Template::parse("{{ .Input | toString }}").unwrap();
    let deeper = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert!(own_bound(template.render_json(deeper.as_bytes())));
    for function in ["fromJson", "mustFromJson"] {
        assert!(own_bound(render(&format!(
            "{{{{ {function} \"{deep}\" }}}}"
        ))));
    }
    assert_eq!(output("{{ fromJson \"[1\" }}"), "<no value>");
}

/// Whether a rendering ended at a bound of this program, and says so.
fn own_bound(rendered: Result<String, TemplateError>) -> bool {
    rendered.is_err_and(|error| error.is_own() && error.to_string().starts_with("eventlab: "))
}

#[test]
fn no_words_of_a_template_make_its_error_one_of_this_program() {
    for words in [
        "eventlab: ",
        "eventlab: the template takes too many steps; do less work in it",
        "value is too large; build smaller",
        "template takes too many steps",
        "output is longer than 4 MiB",
    ] {
        for source in [
            format!("{{{{ fail {words:?} }}}}"),
            format!("{{{{ int64 1 | hasKey (dict) | print {words:?} }}}}"),
            format!("{{{{ mustRegexMatch \"({words}\" \"a\" }}}}"),
            format!("{{{{ index (list 1) {words:?} }}}}"),
        ] {
            let error = render(&source).unwrap_err();
            assert!(matches!(error, TemplateError::Execute(_)), "{error}");
            assert!(!error.is_own(), "{error}");
        }
    }
}

/// As Go does: a null of data has a type, an empty interface; what is missing, and what came through a pipeline, has
/// none and makes an empty object.
#[test]
fn a_null_of_data_is_no_empty_object() {
    let data = json!({
        "n": null, "l": [null, {"a": 1}, null], "m": {"n": null, "x": "y"}, "s": "t",
    });
    let render = |source: &str| Template::parse(source)?.render(&data);
    let calls = [
        "keys X",
        "values X",
        "hasKey X \"a\"",
        "get X \"a\"",
        "pick X \"a\"",
        "omit X \"a\"",
        "unset X \"a\"",
        "merge X (dict)",
        "merge (dict) X",
        "mergeOverwrite (dict) (dict) X",
        "pluck \"a\" X",
    ];
    for call in calls {
        for (around, passes) in [
            ("{{ $x := .Input.n }}{{ CALL }}", true),
            ("{{ with .Input.n }}{{ else }}{{ CALL }}{{ end }}", true),
            ("{{ range .Input.l }}{{ CALL }}{{ break }}{{ end }}", false),
            (
                "{{ range $i, $x := .Input.l }}{{ CALL }}{{ break }}{{ end }}",
                false,
            ),
            (
                "{{ range $x := .Input.m }}{{ CALL }}{{ break }}{{ end }}",
                false,
            ),
            (
                "{{ range $x := .Input.l }}{{ $x = . }}{{ CALL }}{{ break }}{{ end }}",
                true,
            ),
            (
                "{{ range .Input.l }}{{ $x := . }}{{ CALL }}{{ break }}{{ end }}",
                true,
            ),
        ] {
            let variable = if around.contains("$x") { "$x" } else { "." };
            let places = [
                (variable, passes || variable == "."),
                ("$.Input.n", false),
                ("$.Input.m.n", false),
                ("$.Input.nope", true),
                ("$.Input.m.nope", true),
                ("($.Input.n)", true),
                ("(index $.Input.l 0)", true),
            ];
            for (place, passes) in places {
                // The dot of the whole is an object, that of an element of a list is what is looked at.
                let passes = passes && !(place == "." && around.contains("range"));
                let source = around.replace("CALL", &call.replace('X', place));
                let rendered = render(&source);
                assert_eq!(rendered.is_ok(), passes, "{source}: {rendered:?}");
                if let Err(error) = rendered {
                    let wanted =
                        "wrong type for value; expected map[string]interface {}; got interface {}";
                    assert!(error.to_string().ends_with(wanted), "{source}: {error}");
                }
            }
        }
    }
    let many = format!("{{{{ keys {}.Input.n }}}}", "(dict) ".repeat(40));
    assert!(render(&many).is_err());
    for (source, wanted) in [
        (
            "{{ range .Input.l }}[{{ . }}]{{ end }}",
            Some("[<no value>][map[a:1]][<no value>]"),
        ),
        ("{{ range .Input.l }}{{ .a }}{{ end }}", None),
        ("{{ range $x := .Input.l }}{{ $x.a }}{{ end }}", None),
        (
            "{{ range .Input.l }}{{ (.).a }}{{ break }}{{ end }}",
            Some("<no value>"),
        ),
        ("{{ $x := .Input.n }}{{ $x.a }}", Some("<no value>")),
        ("{{ (index .Input.l 0).a }}", Some("<no value>")),
        (
            "{{ define \"t\" }}{{ .a }}{{ end }}{{ range .Input.l }}{{ template \"t\" . }}{{ break }}{{ end }}",
            Some("<no value>"),
        ),
        (
            "{{ range .Input.l }}{{ with $y := . }}{{ $y.a }}{{ else }}e{{ end }}{{ end }}",
            Some("e1e"),
        ),
        (
            "{{ range .Input.l }}{{ if true }}{{ .a }}{{ end }}{{ end }}",
            None,
        ),
        (
            "{{ range .Input.l }}{{ with 1 }}{{ keys . }}{{ end }}{{ break }}{{ end }}",
            None,
        ),
        ("{{ range (list nil) }}{{ keys . }}{{ end }}", None),
        (
            "{{ range .Input.l }}{{ keys (. | default dict) }}{{ end }}",
            Some("[][a][]"),
        ),
        ("{{ .Input.n | keys }}", Some("[]")),
    ] {
        assert_eq!(render(source).ok().as_deref(), wanted, "{source}");
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
