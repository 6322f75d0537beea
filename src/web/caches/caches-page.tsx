/** The page of both answer caches: their contents, savings and judged hits. */
import { ExactCache } from "./exact-cache.js";
import { SemanticCaches } from "./semantic-caches.js";

export function CachesPage() {
  return (
    <div class="page">
      <h2>Caches</h2>
      <ExactCache />
      <SemanticCaches />
    </div>
  );
}
