// Two rules that oxlint does not have: its `no-restricted-imports` cannot look ahead in a regular expression and does
// not see `import()`, and it has no `no-restricted-syntax`. oxlint.config.mjs says which files they hold for, and
// tests/unit/lint.test.ts breaks them.

/** Refuses imports of each form. The options are patterns: `{ regex, allowTypeImports, message }`. */
const imports = {
  meta: { schema: false },
  create(context) {
    const patterns = context.options.map((option) => ({ ...option, pattern: new RegExp(option.regex, "u") }));
    const check = (node) => {
      const named = (node.source ?? node.argument)?.value;
      if (typeof named !== "string") return;
      for (const { pattern, allowTypeImports, message } of patterns)
        if (pattern.test(named) && !(allowTypeImports && isOfTypes(node)))
          context.report({ node, message: `'${named}' must not be imported here. ${message}` });
    };
    return {
      ImportDeclaration: check,
      ExportNamedDeclaration: check,
      ExportAllDeclaration: check,
      ImportExpression: check,
      TSImportType: check,
    };
  },
};

function isOfTypes({ type, importKind, exportKind, specifiers = [] }) {
  if (type === "TSImportType" || importKind === "type" || exportKind === "type") return true;
  return specifiers.length > 0 && specifiers.every((one) => (one.importKind ?? one.exportKind) === "type");
}

/** Refuses what the selectors match. The options: `{ selector, message }`. */
const syntax = {
  meta: { schema: false },
  create: (context) =>
    Object.fromEntries(
      context.options.map(({ selector, message }) => [selector, (node) => context.report({ node, message })]),
    ),
};

export default { meta: { name: "pgz" }, rules: { imports, syntax } };
