//! Messages, shapes and bounds; conformance is tested against the official suite and against a second validator.

use serde_json::{Value, json};

use super::*;

#[track_caller]
fn check_text(schema: Value, instance: Value, expected: &str) {
    let schema = Schema::compile(&schema).expect("a schema");
    let text = schema.validate(&instance.into()).map_or_else(|invalid| invalid.describe("arguments"), |()| "valid".to_owned());
    assert_eq!(text, expected);
}

#[test]
fn messages_name_place_expectation_and_kind() {
    let seconds = json!({"properties": {"seconds": {"type": "integer", "minimum": 1, "exclusiveMaximum": 60}}});
    check_text(seconds.clone(), json!({"seconds": "5"}), "arguments.seconds: expected integer, got string");
    check_text(seconds.clone(), json!({"seconds": 0.5}), "arguments.seconds: expected integer, got number");
    check_text(seconds.clone(), json!({"seconds": 0}), "arguments.seconds: expected at least 1");
    check_text(seconds.clone(), json!({"seconds": 60.0}), "arguments.seconds: expected less than 60");
    check_text(seconds, json!({"seconds": 59.0}), "valid");
    check_text(json!({"type": ["null", "string"]}), json!([]), "arguments: expected null or string, got array");
    check_text(json!({"enum": ["app", 2, null]}), json!("x"), "arguments: expected one of \"app\", 2, null");
    check_text(json!({"const": {"a": 1}}), json!({}), "arguments: expected {\"a\":1}");
    check_text(json!({"multipleOf": 0.01}), json!(0.015), "arguments: expected a multiple of 0.01");
    check_text(json!({"minLength": 3}), json!("🦀🦀"), "arguments: expected at least 3 characters, got 2");
    check_text(json!({"maxLength": 1}), json!("ab"), "arguments: expected at most 1 character, got 2");
    check_text(json!({"pattern": "^[a-z]+$"}), json!("A"), "arguments: expected text that matches `^[a-z]+$`");
    check_text(json!({"not": {}}), json!(1), "arguments: fits what `not` excludes");
    check_text(json!(false), json!(1), "arguments: expected nothing here");
}

#[test]
fn messages_about_arrays_count() {
    let items = json!({"properties": {"items": {"items": {"type": "integer"}}}});
    check_text(items, json!({"items": [1, 2, 3, "x"]}), "arguments.items[3]: expected integer, got string");
    check_text(json!({"minItems": 1}), json!([]), "arguments: expected at least 1 item, got 0");
    let pair = json!({"prefixItems": [true, true], "items": false});
    check_text(pair, json!([1, 2, 3]), "arguments: expected at most 2 items, got 3");
    let unique = json!({"uniqueItems": true});
    check_text(unique.clone(), json!([1, {}, 1.0]), "arguments: expected each item once, but items 0 and 2 are equal");
    let mut many: Vec<Value> = (0..100).map(Value::from).collect();
    check_text(unique.clone(), json!(many), "valid");
    many[70] = json!(7.0);
    check_text(unique, json!(many), "arguments: expected each item once, but items 7 and 70 are equal");
    let contains = json!({"contains": {"type": "null"}, "minContains": 2, "maxContains": 2});
    check_text(contains.clone(), json!([null]), "arguments: expected at least 2 items that fit `contains`, got 1");
    check_text(contains, json!([null, null, null]), "arguments: expected at most 2 items that fit `contains`, got 3");
}

#[test]
fn messages_about_objects_name_properties() {
    let closed = json!({"properties": {"seconds": {}, "unit": {}}, "additionalProperties": false, "required": ["unit"]});
    check_text(
        closed,
        json!({"secnods": 1, "zz": 2}),
        "arguments: missing property \"unit\"; arguments: unknown property \"secnods\", did you mean \"seconds\"? \
         (accepted: \"seconds\", \"unit\"); arguments: unknown property \"zz\"",
    );
    check_text(json!({"additionalProperties": false}), json!({"a": 1}), "arguments: unknown property \"a\"");
    let unevaluated = json!({"properties": {"name": {}}, "unevaluatedProperties": false});
    check_text(
        unevaluated,
        json!({"nmae": 1}),
        "arguments: unknown property \"nmae\", did you mean \"name\"? (accepted: \"name\")",
    );
    check_text(
        json!({"propertyNames": {"maxLength": 1}}),
        json!({"ab": 1}),
        "arguments: property name \"ab\": expected at most 1 character, got 2",
    );
    check_text(
        json!({"dependentRequired": {"a": ["b"]}}),
        json!({"a": 1}),
        "arguments: missing property \"b\", required by \"a\"",
    );
    check_text(
        json!({"properties": {"odd key": {"properties": {"0a": {"type": "null"}}}}}),
        json!({"odd key": {"0a": 1}}),
        "arguments[\"odd key\"][\"0a\"]: expected null, got integer",
    );
}

#[test]
fn messages_about_alternatives_say_why_each_failed() {
    let any = json!({"anyOf": [{"type": "string"}, {"type": "null"}]});
    check_text(
        any,
        json!(1),
        "arguments: fits none of 2 alternatives: expected string, got integer; or expected null, got integer",
    );
    let meant = json!({"anyOf": [{"type": "null"}, {"type": "object", "required": ["a", "b"]}]});
    check_text(meant, json!({}), "arguments: missing property \"a\"; arguments: missing property \"b\"");
    let deep = json!({"properties": {"x": {"oneOf": [
        {"properties": {"y": {"type": "null"}}}, {"properties": {"y": {"type": "string"}}}
    ]}}});
    check_text(
        deep,
        json!({"x": {"y": 1}}),
        "arguments.x: fits none of 2 alternatives: .y: expected null, got integer; or .y: expected string, got integer",
    );
    let both = json!({"oneOf": [{"type": "null"}, {"minimum": 1}, {"maximum": 9}]});
    check_text(both, json!(5), "arguments: expected one of 3 alternatives to fit, but 2 and 3 do");
}

#[test]
fn only_what_fits_evaluates() {
    let branch = json!({"properties": {"a": {}}, "required": ["b"]});
    let any = json!({"anyOf": [branch, true], "unevaluatedProperties": false});
    check_text(any, json!({"a": 1}), "arguments: unknown property \"a\"");
    let test = json!({"if": branch, "unevaluatedProperties": false});
    check_text(test.clone(), json!({"a": 1}), "arguments: unknown property \"a\"");
    check_text(test, json!({"a": 1, "b": 2}), "arguments: unknown property \"b\"");
    let failed = json!({"anyOf": [branch], "unevaluatedProperties": false});
    check_text(failed, json!({"a": 1}), "arguments: missing property \"b\"");
}

#[test]
fn violations_are_counted_and_never_quote_values() {
    let secret = "hunter2-".repeat(100);
    let schema = json!({"properties": {"a": {"enum": ["x"]}, "b": {"const": 1}, "c": {"pattern": "^$"},
        "d": {"maxLength": 3}, "e": {"not": {"type": "string"}}, "f": {"anyOf": [{"type": "null"}, {"minLength": 9999}]}}});
    let instance: Value = "abcdef".chars().map(|name| (name.to_string(), json!(secret))).collect();
    let invalid = Schema::compile(&schema).unwrap().validate(&instance.clone().into()).unwrap_err();
    assert_eq!(invalid.violations.len(), 6);
    assert!(!invalid.describe("arguments").contains("hunter"), "{invalid}");

    let many = json!((0..100).collect::<Vec<_>>());
    let invalid = Schema::compile(&json!({"items": {"type": "null"}})).unwrap().validate(&many.into()).unwrap_err();
    assert_eq!(invalid.violations.len(), VIOLATIONS_MAX);
    assert!(!invalid.exhausted);
    assert_eq!(invalid.violations[7].pointer, "/7");
    assert_eq!(invalid.violations[7].keyword, "type");
    assert_eq!(invalid.violations[7].to_string(), "at `/7`: expected null, got integer");
}

#[test]
fn long_names_and_lists_are_cut() {
    let names: Vec<String> = (0..500).map(|n| format!("name{n:0100}")).collect();
    let closed: Value = names.iter().map(|name| (name.clone(), json!(true))).collect();
    let schema = Schema::compile(&json!({"properties": closed, "additionalProperties": false, "not": {"enum": names}}));
    let instance = json!({"x".repeat(100_000): 1});
    let text = schema.unwrap().validate(&instance.clone().into()).unwrap_err().describe("arguments");
    assert!(text.len() < 600, "{}: {text}", text.len());
    let nested = json!({"additionalProperties": {"type": "null"}});
    let text = Schema::compile(&nested).unwrap().validate(&instance.clone().into()).unwrap_err().describe("arguments");
    assert!(text.len() < 200, "{}: {text}", text.len());
}

#[track_caller]
fn check_refused(schema: Value, expected: &[&str]) {
    let errors = Schema::compile(&schema).expect_err("the schema should be refused");
    let texts: Vec<String> = errors.iter().map(SchemaError::to_string).collect();
    assert_eq!(texts, expected, "{schema}");
}

#[test]
fn wrong_shapes_are_refused_all_at_once() {
    check_refused(
        json!({"properties": {"x": {"type": "foo", "minimum": "3"}, "y": 7}, "required": "x"}),
        &[
            "at `/required`: expected an array of strings, got the string \"x\"",
            "at `/properties/x/type`: expected one of \"null\", \"boolean\", \"integer\", \"number\", \"string\", \
             \"array\", \"object\", or several in an array, got the string \"foo\"",
            "at `/properties/x/minimum`: expected a number, got the string \"3\"",
            "at `/properties/y`: expected an object or a boolean, got 7",
        ],
    );
    check_refused(json!(null), &["at the root: expected an object or a boolean, got null"]);
}

/// Every keyword with values of shapes it does not take.
const WRONG_SHAPES: &str = r##"{
    "type": [[], ["null", "null"], ["null", 1], "foo", 1, null], "enum": [1, {}, "x"],
    "minimum": ["1", null], "maximum": ["1"], "exclusiveMinimum": [true], "exclusiveMaximum": [[]],
    "multipleOf": [0, -1, "1", -0.5], "minLength": [-1, 1.5, "1"], "maxLength": [-1, null], "minItems": [-1],
    "maxItems": [0.5], "minProperties": [-1], "maxProperties": ["1"], "minContains": [-1], "maxContains": [-1],
    "pattern": [1, "(", "(?=a)"], "uniqueItems": [1, "true"], "required": ["x", [1], ["a", "a"], {}],
    "dependentRequired": [[], {"a": "b"}, {"a": [1]}, {"a": ["b", "b"]}], "dependentSchemas": [[], {"a": 1}],
    "properties": [[], {"a": 1}], "patternProperties": [[], {"a": 1}, {"(": true}], "$defs": [[], {"a": 1}],
    "definitions": [{"a": 1}], "additionalProperties": [1, []], "propertyNames": ["x"], "items": [1, [true]],
    "prefixItems": [true, [], [1]], "contains": [1], "unevaluatedItems": [1], "unevaluatedProperties": [1],
    "allOf": [true, [], [1]], "anyOf": [{}, []], "oneOf": [{}, []], "not": [1, []], "if": [1], "then": [1],
    "else": [1], "contentSchema": [1], "$ref": [1, "#/nowhere", "#nowhere", "other.json", "#/%zz"],
    "$id": [1, "#x", "a#b"], "$anchor": [1, "", "1a", "a b", "#a"], "$schema": [1, "", "http://json-schema.org/draft-07/schema#"],
    "title": [1], "description": [[]], "$comment": [1], "format": [1], "contentEncoding": [1],
    "contentMediaType": [1], "deprecated": [1], "readOnly": ["true"], "writeOnly": [null], "examples": [{}],
    "$dynamicRef": ["#x"], "$dynamicAnchor": ["x"], "$vocabulary": [{}], "$recursiveRef": ["#"], "$recursiveAnchor": [true]
}"##;

#[test]
fn each_keyword_checks_its_shape() {
    let wrong: Value = serde_json::from_str(WRONG_SHAPES).unwrap();
    for (keyword, values) in wrong.as_object().unwrap() {
        for value in values.as_array().unwrap() {
            let schema = json!({keyword: value});
            let errors = Schema::compile(&schema).expect_err(&schema.to_string());
            assert_eq!(errors.len(), 1, "{schema}: {errors:?}");
            assert!(errors[0].pointer.starts_with(&format!("/{keyword}")), "{schema}: {errors:?}");
            let nested = json!({"properties": {"p": {"items": schema}}});
            let errors = Schema::compile(&nested).expect_err(&nested.to_string());
            assert!(errors[0].pointer.starts_with(&format!("/properties/p/items/{keyword}")), "{nested}: {errors:?}");
        }
    }
}

#[test]
fn unknown_keywords_are_refused_with_the_nearest() {
    check_refused(json!({"minimun": 3}), &["at `/minimun`: unknown keyword \"minimun\", did you mean \"minimum\"?"]);
    check_refused(
        json!({"items": {"frobnicate": 3}}),
        &["at `/items/frobnicate`: unknown keyword \"frobnicate\" (your own begin with `x-`)"],
    );
    check_refused(
        json!({"nullable": true}),
        &["at `/nullable`: keyword \"nullable\" is not of this dialect, use `\"type\": [..., \"null\"]`"],
    );
    assert!(Schema::compile(&json!({"x-note": 1, "properties": {"minimun": {}}})).is_ok());
    assert!(Schema::compile_with(&json!({"minimun": 3}), Unknown::Ignore).is_ok());
    assert!(Schema::compile_with(&json!({"$dynamicRef": "#x"}), Unknown::Ignore).is_err());
}

#[test]
fn references_stay_inside_the_document_and_end() {
    check_refused(
        json!({"$ref": "http://127.0.0.1:1/x"}),
        &["at `/$ref`: no subschema here has the `$id` of \"http://127.0.0.1:1/x\", and other documents are never read"],
    );
    check_refused(json!({"enum": [{"a": 1}], "not": {"$ref": "#/enum/0"}}), &["at `/not/$ref`: no subschema at \"#/enum/0\""]);
    let circle = "expected a reference that goes down into the value, got a circle on the spot";
    check_refused(json!({"$ref": "#"}), &[&format!("at `/$ref`: {circle}")]);
    check_refused(
        json!({"$defs": {"a": {"anyOf": [true, {"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
        &[&format!("at `/$defs/a/anyOf/1/$ref`: {circle}")],
    );
    check_refused(
        json!({"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}),
        &["at `/$defs/b/$anchor`: expected each `$anchor` once in a resource"],
    );
    check_refused(
        json!({"$defs": {"a": {"$id": "x"}, "b": {"$id": "x"}}}),
        &["at `/$defs/b/$id`: expected each `$id` once in a document"],
    );
    let tree = json!({"type": "object", "properties": {"kids": {"items": {"$ref": "#"}}}, "additionalProperties": false});
    check_text(tree.clone(), json!({"kids": [{"kids": []}, {}]}), "valid");
    check_text(tree, json!({"kids": [{"kids": [7]}]}), "arguments.kids[0].kids[0]: expected object, got integer");
}

#[test]
fn compiling_is_bounded() {
    let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"not": inner}));
    assert!(Schema::compile(&nested(NESTING_MAX)).is_ok());
    let errors = Schema::compile(&nested(NESTING_MAX + 1)).unwrap_err();
    assert_eq!(errors[0].message, "expected at most 64 levels of subschemas");

    let wide = |count: usize| json!({"allOf": vec![json!({}); count]});
    assert!(Schema::compile(&wide(SUBSCHEMAS_MAX - 1)).is_ok());
    let errors = Schema::compile(&wide(SUBSCHEMAS_MAX)).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].to_string(), "at `/allOf/9999`: expected at most 10000 subschemas");

    let errors = Schema::compile(&json!({"anyOf": vec![json!({"type": 1}); 1_000]})).unwrap_err();
    assert_eq!(errors.len(), ERRORS_MAX);

    let deep = (0..=NESTING_MAX).fold(json!(1), |inner, _| json!([inner]));
    let errors = Schema::compile(&json!({"const": deep})).unwrap_err();
    assert_eq!(errors[0].to_string(), "at `/const`: expected at most 64 levels of nesting");

    let large = vec![json!({"pattern": "^(?:[a-z]{1,30}x){30}$"}); 1 + PATTERNS_BYTES_MAX / PATTERN_BYTES_MAX];
    assert!(Schema::compile(&json!({"allOf": large[1..]})).is_ok());
    let errors = Schema::compile(&json!({"allOf": large})).unwrap_err();
    assert_eq!(errors[0].message, "too many large patterns");

    let long = "a".repeat(URI_BYTES_MAX);
    assert!(Schema::compile(&json!({"$id": long})).is_ok());
    assert!(Schema::compile(&json!({"$id": format!("{long}a")})).is_err());
}

#[track_caller]
fn check_exhausted(schema: Value, instance: Value) {
    let schema = Schema::compile(&schema).expect("a schema");
    let invalid = schema.validate(&instance.into()).expect_err("the check should run out of budget");
    assert!(invalid.exhausted, "{invalid}");
}

#[test]
fn a_check_that_runs_out_is_a_refusal() {
    let doubled = |kind: &str| {
        let mut defs: serde_json::Map<String, Value> = (0..24)
            .map(|n| {
                (
                    format!("d{n}"),
                    json!({kind: [{"$ref": format!("#/$defs/d{}", n + 1)}, {"$ref": format!("#/$defs/d{}", n + 1)}]}),
                )
            })
            .collect();
        defs.insert("d24".to_owned(), json!({"type": "string"}));
        json!({"$ref": "#/$defs/d0", "$defs": defs})
    };
    check_exhausted(doubled("allOf"), json!("x"));
    check_exhausted(doubled("anyOf"), json!(1));
    // running out inside `not` must not turn into a yes
    check_exhausted(json!({"not": {"pattern": "a"}}), json!("b".repeat(5_000_000)));
    check_exhausted(json!({"pattern": "a"}), json!("b".repeat(5_000_000)));
    check_exhausted(json!({"patternProperties": {"a": {}}}), json!({"b".repeat(5_000_000): 1}));
    check_exhausted(json!({"uniqueItems": true}), json!((0..200_000).collect::<Vec<_>>()));
    check_exhausted(json!({"minLength": 1}), json!("x".repeat(65_000_000)));
    check_exhausted(json!({"items": {"enum": ["x".repeat(6_400)]}}), json!(vec!["x".repeat(6_400); 20_000]));
}

#[test]
fn an_upper_length_spares_the_pattern() {
    let schema = json!({"pattern": "^(?:[a-z]{1,30}x){30}$", "maxLength": 10});
    check_text(schema, json!("b".repeat(1_000_000)), "arguments: expected at most 10 characters, got 1000000");
}

#[test]
fn the_step_budget_is_exact() {
    // one step for the array's node, one for its rule, one for each item
    let schema = Schema::compile(&json!({"items": true})).unwrap();
    let items = usize::try_from(STEPS_MAX).unwrap() - 2;
    assert_eq!(schema.validate(&json!(vec![1; items]).into()), Ok(()));
    assert_eq!(schema.validate(&json!(vec![1; items + 1]).into()), Err(Invalid { violations: vec![], exhausted: true }));
}

fn nested_arrays(levels: u32) -> Value {
    (1..levels).fold(json!([]), |inner, _| Value::Array(vec![inner]))
}

/// Runs on a stack a quarter of what worker threads have.
#[test]
fn depth_is_bounded_and_fits_a_small_stack() {
    let probe = || {
        let recursive = json!({"anyOf": [{"items": {"$ref": "#"}, "unevaluatedItems": false}]});
        let schema = Schema::compile(&recursive).unwrap();
        // three nodes for each level (the root, the alternative, the reference), two for the innermost
        assert_eq!(schema.validate(&nested_arrays((DEPTH_MAX + 1) / 3).into()), Ok(()));
        assert!(schema.validate(&nested_arrays((DEPTH_MAX + 1) / 3 + 1).into()).unwrap_err().exhausted);
        let objects = Schema::compile(&json!({"additionalProperties": {"$ref": "#"}, "oneOf": [{"not": false}, false]}));
        let object = (0..200).fold(json!({}), |inner, _| json!({"a": inner}));
        assert!(objects.unwrap().validate(&object.into()).unwrap_err().exhausted);
        let unique = Schema::compile(&json!({"uniqueItems": true})).unwrap();
        let twins = |levels| Json::from(json!([nested_arrays(levels), nested_arrays(levels)]));
        assert!(!unique.validate(&twins(DEPTH_MAX)).unwrap_err().exhausted);
        assert!(unique.validate(&twins(DEPTH_MAX + 1)).unwrap_err().exhausted);
    };
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(512 * 1024);
        builder.spawn_scoped(scope, probe).expect("a thread").join().expect("the probe passes");
    });
}

#[test]
fn schemas_are_shared_between_threads_and_print_short() {
    fn is_shared<T: Send + Sync + std::fmt::Debug>() {}
    is_shared::<Schema>();
    assert_eq!(format!("{:?}", Schema::compile(&json!({"items": false})).unwrap()), "Schema(3 subschemas)");
}
