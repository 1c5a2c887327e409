// Shows the service's own OpenAPI document. Nothing is loaded from elsewhere, and a key that is entered stays in this page.
"use strict";

SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  docExpansion: "list",
  filter: true,
  persistAuthorization: false,
  queryConfigEnabled: false, // the address of this page chooses no other document
  requestSnippetsEnabled: true,
  validatorUrl: null, // it would send the document to another site
});
