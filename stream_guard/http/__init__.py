"""HTTP servers over uvicorn, as serve, the page and the receiver of telemetry have them."""
