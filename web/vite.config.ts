import { defineConfig } from "vite";

// The page is embedded in the daemon: relative addresses, nothing inline (its CSP forbids that).
export default defineConfig({
  base: "./",
  build: { assetsInlineLimit: 0, modulePreload: { polyfill: false }, target: "es2022" },
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
});
